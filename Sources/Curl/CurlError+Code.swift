import CLibcurl

extension CurlError {
  /// The error for one of libcurl's codes (libcurl-errors(3)).
  init(_ code: CURLcode) {
    let text = String(cString: curl_easy_strerror(code))
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT:
      self = .couldNotConnect(text)
    case CURLE_OPERATION_TIMEDOUT:
      self = .timedOut
    case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
      CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR:
      self = .tls(text)
    case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL:
      self = .refused(text)
    default:
      self = .other(code: Int(code.rawValue), text)
    }
  }
}
