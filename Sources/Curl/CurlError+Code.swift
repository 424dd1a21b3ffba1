import CLibcurl

extension CurlError {
  /// What one of libcurl's codes (libcurl-errors(3)) means to a caller.
  init(_ code: CURLcode) {
    let words = String(cString: curl_easy_strerror(code))
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT:
      self = .couldNotConnect(words)
    case CURLE_OPERATION_TIMEDOUT:
      self = .timedOut
    case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
      CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR:
      self = .tls(words)
    case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL:
      self = .refused(words)
    default:
      self = .other(code: Int(code.rawValue), words)
    }
  }
}
