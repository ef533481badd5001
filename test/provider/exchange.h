/*
 * exchange.h
 *		One request from its arrival to its answer.
 */
#ifndef PROVIDER_EXCHANGE_H
#define PROVIDER_EXCHANGE_H

#include "conn.h"
#include "http.h"

typedef struct Exchange Exchange;

extern void exchange_begin(Conn *conn, const HttpRequest *request);
extern void exchange_refuse(Conn *conn, int status);
extern void exchange_abandon(Exchange *exchange);

#endif							/* PROVIDER_EXCHANGE_H */
