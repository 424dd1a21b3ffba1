/// The reason why a request has no complete response. It contains no header field, body or query of the request.
public enum CurlError: Error, Sendable, Equatable {
  /// The host was not found or refused the connection.
  case couldNotConnect(String)
  /// The request's timeout or connect timeout passed.
  case timedOut
  /// The response body is longer than the request allows.
  case tooLarge
  /// TLS failed, or the server's certificate is not trusted for its name.
  case tls(String)
  /// The task was cancelled.
  case cancelled
  /// The queue of requests is full.
  case busy
  /// The client was shut down.
  case shutDown
  /// The URL is not a well-formed `http` or `https` URL, or its host has a private address.
  case refused(String)
  /// Another error, with libcurl's code and text (`curl_easy_strerror`).
  case other(code: Int, String)
}
