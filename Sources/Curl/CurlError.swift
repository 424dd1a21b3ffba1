/// Why there is no whole answer. Carries no field, no body and no query of the request.
public enum CurlError: Error, Sendable, Equatable {
  /// The host was not found or did not take the connection.
  case couldNotConnect(String)
  /// The request's time, or its time to connect, passed.
  case timedOut
  /// The answer's body is longer than the request allows.
  case tooLarge
  /// TLS failed, or the server's certificate is not trusted for its name.
  case tls(String)
  /// The task was cancelled.
  case cancelled
  /// Too many requests are waiting already.
  case busy
  /// The client was shut down.
  case shutDown
  /// The URL is not a well-formed `http` or `https` one, or its host may not be called.
  case refused(String)
  /// Anything else, by libcurl's number and its own words for it (`curl_easy_strerror`).
  case other(code: Int, String)
}
