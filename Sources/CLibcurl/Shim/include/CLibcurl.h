#ifndef RECEIPTD_CLIBCURL_H
#define RECEIPTD_CLIBCURL_H

#include <curl/curl.h>

// libcurl's setters and getters are variadic, which Swift cannot call. Each function here gives one of
// their documented shapes a fixed form; which option takes which shape stands in curl_easy_setopt(3).

typedef size_t (*receiptd_curl_receiver)(char *bytes, size_t size, size_t count, void *context);

CURLcode receiptd_curl_set_long(CURL *handle, CURLoption option, long value);
CURLcode receiptd_curl_set_large(CURL *handle, CURLoption option, curl_off_t value);
CURLcode receiptd_curl_set_string(CURL *handle, CURLoption option, const char *value);
CURLcode receiptd_curl_set_pointer(CURL *handle, CURLoption option, void *value);
CURLcode receiptd_curl_set_receiver(CURL *handle, CURLoption option, receiptd_curl_receiver receiver);
CURLcode receiptd_curl_set_socket_opener(CURL *handle, curl_opensocket_callback opener);

CURLcode receiptd_curl_get_long(CURL *handle, CURLINFO info, long *value);
CURLcode receiptd_curl_get_pointer(CURL *handle, CURLINFO info, void **value);

// The members of CURLMsg are in a union, which Swift imports awkwardly.
CURLcode receiptd_curl_message_result(const CURLMsg *message);

// An expression macro of the header.
CURLcode receiptd_curl_global_init(void);

#endif
