#include "CLibcurl.h"
CURLcode receiptd_curl_set_long(CURL *handle, CURLoption option, long value) {
  return curl_easy_setopt(handle, option, value);
}
