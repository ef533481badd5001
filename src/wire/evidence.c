/*
 * evidence.c
 *		From a finished transfer to what it proves.
 *
 * Our own callbacks' flags come first, because libcurl reports what they
 * stopped under a handful of unspecific codes.  Its code decides nothing about
 * whether the request left: evidence.prereqs does.
 */
#include <stdio.h>
#include <string.h>

#include "../rules/fault.h"
#include "../rules/mask.h"
#include "request.h"

static AlEnding read_ending(const AlRequest *request, CURLcode code);
static AlEnding read_code(CURLcode code);
static AlEnding after_send(AlEnding ending, CURLcode code, bool head_complete);
static bool is_framing_complete(const AlRequest *request, AlEnding ending);
static void describe(const AlRequest *request, AlEnding ending, CURLcode code);
static void read_timing(const AlRequest *request);
static void mask_secrets(const AlRequest *request);

/* Fills the finished record and hands it over. */
AlFinished *
al_request_conclude(AlRequest *request, CURLcode code)
{
	AlFinished *finished = request->finished;
	AlWireResult *result = &finished->result;
	AlEvidence *evidence = &result->evidence;
	curl_off_t	uploaded = 0;

	if (AL_FAULT_POINT("response_complete"))
		request->local_failure = true;

	(void) curl_easy_getinfo(request->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
	evidence->ending = read_ending(request, code);
	evidence->head_complete = result->head.complete;
	evidence->status = result->head.status >= 200 ? result->head.status : 0;
	evidence->framing_complete = is_framing_complete(request, evidence->ending);
	evidence->upload_complete = evidence->prereqs > 0 &&
		(uint64_t) uploaded >= request->request_body_len;
	result->curl_code = (int) code;
	describe(request, evidence->ending, code);
	read_timing(request);
	mask_secrets(request);

	al_request_leave_unsent(request);
	request->finished = NULL;
	return finished;
}

/* Copies a message into the detail; what is not printable ASCII becomes '?'. */
void
al_request_describe(AlWireResult *result, const char *message)
{
	size_t		len = 0;

	for (; message[len] && len + 1 < sizeof(result->detail); len++)
		result->detail[len] = message[len] >= ' ' && message[len] <= '~' ? message[len] : '?';
	result->detail[len] = '\0';
}

/* Says how the transfer ended. */
static AlEnding
read_ending(const AlRequest *request, CURLcode code)
{
	const AlWireResult *result = &request->finished->result;
	bool		sent = result->evidence.prereqs > 0;
	AlEnding	ending;

	if (request->aborted)
		return AL_END_ABORTED;
	if (request->resend_blocked)
		return AL_END_RESEND_BLOCKED;
	if (request->peer_refused)
		return AL_END_ADDRESS_REFUSED;
	if (request->capped)
		return AL_END_CAPPED;
	if (request->garbled)
		return AL_END_GARBLED;

	if (request->local_failure)
		return AL_END_LOCAL;

	/* With several addresses, what happened to one matters only if no other got a socket. */
	if (!sent && code != CURLE_OK && request->n_opened == 0)
	{
		if (request->socket_failure)
			return AL_END_LOCAL;
		if (request->n_refused > 0)
			return AL_END_ADDRESS_REFUSED;
	}

	ending = read_code(code);
	return sent ? after_send(ending, code, result->head.complete) : ending;
}

/* Translates libcurl's code for a transfer of which nothing left. */
static AlEnding
read_code(CURLcode code)
{
	switch (code)
	{
		case CURLE_OK:
			return AL_END_OK;
		case CURLE_COULDNT_RESOLVE_HOST:
			return AL_END_RESOLVE;
		case CURLE_COULDNT_CONNECT:
			return AL_END_CONNECT;
		case CURLE_SSL_CONNECT_ERROR:
		case CURLE_PEER_FAILED_VERIFICATION:
		case CURLE_SSL_CIPHER:
		case CURLE_SSL_ISSUER_ERROR:
		case CURLE_SSL_INVALIDCERTSTATUS:
		case CURLE_SSL_CLIENTCERT:
			return AL_END_TLS;
		case CURLE_SSL_CACERT_BADFILE:
		case CURLE_SSL_CERTPROBLEM:
		case CURLE_SSL_CRL_BADFILE:
		case CURLE_SSL_ENGINE_NOTFOUND:
		case CURLE_SSL_ENGINE_SETFAILED:
		case CURLE_SSL_ENGINE_INITFAILED:
			return AL_END_BAD_TRUST;
		case CURLE_COULDNT_RESOLVE_PROXY:
		case CURLE_PROXY:
			return AL_END_PROXY;
		case CURLE_OPERATION_TIMEDOUT:
			return AL_END_TIMEOUT;
		case CURLE_URL_MALFORMAT:
		case CURLE_UNSUPPORTED_PROTOCOL:
		case CURLE_LOGIN_DENIED:
		case CURLE_BAD_FUNCTION_ARGUMENT:
			return AL_END_BAD_REQUEST;
		case CURLE_SEND_ERROR:
		case CURLE_SEND_FAIL_REWIND:
		case CURLE_READ_ERROR:
			return AL_END_SEND;
		case CURLE_RECV_ERROR:
		case CURLE_GOT_NOTHING:
			return AL_END_RECEIVE;
		case CURLE_PARTIAL_FILE:
			return AL_END_PARTIAL;
		case CURLE_WEIRD_SERVER_REPLY:
		case CURLE_BAD_CONTENT_ENCODING:
		case CURLE_HTTP2:
		case CURLE_HTTP2_STREAM:
			return AL_END_GARBLED;
		default:
			return AL_END_LOCAL;
	}
}

/*
 * Corrects an ending once the request has left.  What belongs to the time
 * before sending then comes from a connection that libcurl opened for a hidden
 * re-send: the connection that carried the request is lost.
 */
static AlEnding
after_send(AlEnding ending, CURLcode code, bool head_complete)
{
	switch (ending)
	{
		case AL_END_BAD_REQUEST:
			/* libcurl's code for a version of HTTP that it does not take, too */
			if (code == CURLE_UNSUPPORTED_PROTOCOL)
				return AL_END_GARBLED;
			break;
		case AL_END_RESOLVE:
		case AL_END_CONNECT:
		case AL_END_TLS:
		case AL_END_PROXY:
		case AL_END_BAD_TRUST:
		case AL_END_RECEIVE:
			break;
		default:
			return ending;
	}
	return head_complete ? AL_END_PARTIAL : AL_END_RECEIVE;
}

/* Tells whether the answer is known to have ended where its sender ended it. */
static bool
is_framing_complete(const AlRequest *request, AlEnding ending)
{
	const AlWireResult *result = &request->finished->result;
	const AlHead *head = &result->head;

	if (ending != AL_END_OK || !head->complete)
		return false;
	if (request->is_head || head->status == 204 || head->status == 304 || head->chunked)
		return true;
	return head->has_length && head->length >= 0 && (uint64_t) head->length == result->body_len;
}

/*
 * Puts the ending in words.  libcurl's own are taken only where they speak of
 * the connection: elsewhere they may quote the URL or a header.
 */
static void
describe(const AlRequest *request, AlEnding ending, CURLcode code)
{
	AlWireResult *result = &request->finished->result;
	const char *words = curl_easy_strerror(code);
	char		buffer[sizeof(result->detail)];

	switch (ending)
	{
		case AL_END_OK:
			words = result->head.complete ? "" :
				"connection closed before the response head was complete";
			break;
		case AL_END_RESEND_BLOCKED:
			words = "connection lost, and a second transmission was stopped";
			break;
		case AL_END_ADDRESS_REFUSED:
			(void) snprintf(buffer, sizeof(buffer), "address %s is not allowed",
							request->refused_address);
			words = buffer;
			break;
		case AL_END_CAPPED:
			words = result->body_capped ? "response body is over its limit" :
				"response head is over its limit";
			break;
		case AL_END_GARBLED:
			if (request->garbled)
				words = "response head is malformed";
			break;
		case AL_END_ABORTED:
			words = "request was cancelled";
			break;
		case AL_END_LOCAL:
			if (request->local_failure || request->socket_failure)
				words = "out of memory or descriptors";
			break;
		case AL_END_RESOLVE:
		case AL_END_CONNECT:
		case AL_END_TLS:
		case AL_END_TIMEOUT:
		case AL_END_SEND:
		case AL_END_RECEIVE:
		case AL_END_PARTIAL:
			if (request->error[0] != '\0')
				words = request->error;
			break;
		default:
			break;
	}
	al_request_describe(result, words);
}

/* Reads libcurl's times. */
static void
read_timing(const AlRequest *request)
{
	AlWireTiming *timing = &request->finished->result.timing;
	const struct
	{
		CURLINFO	info;
		int64_t    *into;
	}			times[] = {
		{CURLINFO_NAMELOOKUP_TIME_T, &timing->resolved},
		{CURLINFO_CONNECT_TIME_T, &timing->connected},
		{CURLINFO_APPCONNECT_TIME_T, &timing->tls},
		{CURLINFO_STARTTRANSFER_TIME_T, &timing->first_byte},
		{CURLINFO_TOTAL_TIME_T, &timing->total}
	};

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
	{
		curl_off_t	value = 0;

		if (curl_easy_getinfo(request->easy, times[i].info, &value) == CURLE_OK)
			*times[i].into = value;
	}
}

/* Masks what the answer brings back of the request's secrets. */
static void
mask_secrets(const AlRequest *request)
{
	AlWireResult *result = &request->finished->result;

	for (int i = 0; i < request->n_secrets; i++)
	{
		const char *secret = request->secrets[i];
		size_t		len = strlen(secret);

		al_mask(result->body, result->body_len, secret, len);
		al_mask(result->detail, strlen(result->detail), secret, len);
		for (int h = 0; h < result->head.n_kept; h++)
			al_mask(result->head.kept[h].value, strlen(result->head.kept[h].value), secret, len);
	}
}
