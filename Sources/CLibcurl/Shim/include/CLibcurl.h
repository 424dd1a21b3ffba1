#ifndef RECEIPTD_CLIBCURL_H
#define RECEIPTD_CLIBCURL_H
#include <curl/curl.h>
CURLcode receiptd_curl_set_long(CURL *handle, CURLoption option, long value);
#endif
