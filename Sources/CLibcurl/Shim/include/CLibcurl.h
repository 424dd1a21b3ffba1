#ifndef RECEIPTD_CLIBCURL_H
#define RECEIPTD_CLIBCURL_H
#include <curl/curl.h>
CURLcode receiptd_curl_set_long(CURL *handle, CURLoption option, long value);
CURLcode receiptd_curl_set_pointer(CURL *handle, CURLoption option, const void *value);
CURLcode receiptd_curl_set_writer(CURL *handle, CURLoption option, size_t (*f)(char *, size_t, size_t, void *));
CURLcode receiptd_curl_get_long(CURL *handle, CURLINFO info, long *value);
#endif
