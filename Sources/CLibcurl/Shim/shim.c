#include "CLibcurl.h"
CURLcode receiptd_curl_set_long(CURL *handle, CURLoption option, long value) { return curl_easy_setopt(handle, option, value); }
CURLcode receiptd_curl_set_pointer(CURL *handle, CURLoption option, const void *value) { return curl_easy_setopt(handle, option, value); }
CURLcode receiptd_curl_set_writer(CURL *handle, CURLoption option, size_t (*f)(char *, size_t, size_t, void *)) { return curl_easy_setopt(handle, option, f); }
CURLcode receiptd_curl_get_long(CURL *handle, CURLINFO info, long *value) { return curl_easy_getinfo(handle, info, value); }
