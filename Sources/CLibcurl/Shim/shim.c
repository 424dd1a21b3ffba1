#include "CLibcurl.h"

CURLcode receiptd_curl_set_long(CURL *handle, CURLoption option, long value) {
  return curl_easy_setopt(handle, option, value);
}

CURLcode receiptd_curl_set_large(CURL *handle, CURLoption option, curl_off_t value) {
  return curl_easy_setopt(handle, option, value);
}

CURLcode receiptd_curl_set_string(CURL *handle, CURLoption option, const char *value) {
  return curl_easy_setopt(handle, option, value);
}

CURLcode receiptd_curl_set_pointer(CURL *handle, CURLoption option, void *value) {
  return curl_easy_setopt(handle, option, value);
}

CURLcode receiptd_curl_set_receiver(CURL *handle, CURLoption option, receiptd_curl_receiver receiver) {
  return curl_easy_setopt(handle, option, receiver);
}

CURLcode receiptd_curl_set_socket_opener(CURL *handle, curl_opensocket_callback opener) {
  return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, opener);
}

CURLcode receiptd_curl_get_long(CURL *handle, CURLINFO info, long *value) {
  return curl_easy_getinfo(handle, info, value);
}

CURLcode receiptd_curl_get_pointer(CURL *handle, CURLINFO info, void **value) {
  return curl_easy_getinfo(handle, info, value);
}

CURLcode receiptd_curl_message_result(const CURLMsg *message) { return message->data.result; }

CURLcode receiptd_curl_global_init(void) { return curl_global_init(CURL_GLOBAL_ALL); }
