import HTTPTypes
import JSON

extension Response {
  /// A problem as `application/problem+json`.
  init(_ problem: Problem, requestID: RequestID) {
    let document = ProblemDocument(
      title: problem.title, status: problem.status.code, detail: problem.detail,
      code: problem.code.rawValue, error: problem.message, requestID: requestID.description)
    var headers = problem.headers
    headers[.contentType] = "application/problem+json"
    self.init(status: problem.status, headers: headers, body: JSONWriter.bytes(of: document))
  }
}

/// The members of RFC 9457 and this service's own.
private struct ProblemDocument: JSONWritable {
  let title: String
  let status: Int
  let detail: String
  let code: String
  let error: String
  let requestID: String

  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("code", code)
      json.member("detail", detail)
      json.member("error", error)
      json.member("requestID", requestID)
      json.member("status", status)
      json.member("success", false)
      json.member("title", title)
      json.member("type", "about:blank")
    }
  }
}
