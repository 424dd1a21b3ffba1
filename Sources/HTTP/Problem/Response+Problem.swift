import HTTPTypes

extension Response {
  /// A problem as `application/problem+json`.
  init(_ problem: Problem, requestID: RequestID) {
    let document = ProblemDocument(
      title: problem.title, status: problem.status.code, detail: problem.detail,
      code: problem.code.rawValue, error: problem.message, requestID: requestID.description)
    var headers = problem.headers
    headers[.contentType] = "application/problem+json"
    // Strings and an integer always encode, so the empty body never comes to be.
    self.init(status: problem.status, headers: headers, body: (try? JSONCoding.encode(document)) ?? [])
  }
}

/// The members of RFC 9457 and this service's own, in their order on the wire.
private struct ProblemDocument: Encodable {
  var type = "about:blank"
  let title: String
  let status: Int
  let detail: String
  let code: String
  var success = false
  let error: String
  let requestID: String
}
