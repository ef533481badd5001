/*
 * check.h
 *		What libcurl is never given.
 *
 * libcurl puts a header with CR and LF on the wire as it is, drops a header
 * with an empty value without a word, and takes a Content-Length of the
 * caller's over its own.  So a request is read here before libcurl sees it.
 */
#ifndef AL_CHECK_H
#define AL_CHECK_H

#include "wire.h"

/*
 * NULL when the request is well formed, else the reason in static storage,
 * without anything of the request in it.
 */
extern const char *al_check_request(const AlWireRequest *request);

/* Whether one of the header lines has this name (lower-case). */
extern bool al_check_has_header(const AlWireRequest *request, const char *name);

#endif							/* AL_CHECK_H */
