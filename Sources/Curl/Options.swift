import CLibcurl

/// Sets options of a handle, and records whether libcurl accepted all of them.
struct Options {
  let handle: UnsafeMutableRawPointer
  private(set) var areAllAccepted = true

  init(handle: UnsafeMutableRawPointer) { self.handle = handle }

  mutating func set(_ option: CURLoption, _ value: Int) {
    note(receiptd_curl_set_long(handle, option, value))
  }

  mutating func set(_ option: CURLoption, large value: curl_off_t) {
    note(receiptd_curl_set_large(handle, option, value))
  }

  /// libcurl copies the text.
  mutating func set(_ option: CURLoption, _ value: String) {
    note(receiptd_curl_set_string(handle, option, value))
  }

  mutating func set(_ option: CURLoption, _ value: UnsafeMutableRawPointer?) {
    note(receiptd_curl_set_pointer(handle, option, value))
  }

  mutating func set(_ option: CURLoption, _ receiver: receiptd_curl_receiver) {
    note(receiptd_curl_set_receiver(handle, option, receiver))
  }

  mutating func setSocketOpener(_ opener: curl_opensocket_callback) {
    note(receiptd_curl_set_socket_opener(handle, opener))
  }

  /// Sets the body, which libcurl copies. Set its size first.
  mutating func setCopied(_ body: [UInt8]) {
    body.withUnsafeBytes { bytes in
      // An empty array may have no address, and libcurl would then read standard input.
      let base = bytes.baseAddress ?? UnsafeRawPointer(handle)
      note(receiptd_curl_set_pointer(handle, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: base)))
    }
  }

  private mutating func note(_ code: CURLcode) {
    if code != CURLE_OK { areAllAccepted = false }
  }
}
