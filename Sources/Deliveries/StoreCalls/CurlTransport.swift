import AppStore
import Curl
import HTTP
import HTTPTypes

/// The App Store Server API's HTTP transport over libcurl.
package struct CurlTransport: HTTPTransport {
  let client: CurlClient

  package init(client: CurlClient) { self.client = client }

  package func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8]) {
    let url = "\(request.scheme ?? "https")://\(request.authority ?? "")\(request.path ?? "/")"
    let answer: CurlResponse
    do {
      answer = try await client.send(
        CurlRequest(
          method: request.method, url: url, headers: request.headerFields.traced, body: body,
          timeout: timeout,
          maximumResponseLength: 8 << 20))
    } catch {
      switch error {
      case .cancelled: throw CancellationError()
      // A local limit, not an error of the App Store.
      case .busy: throw AppStoreServerError.overloaded(retryAfter: .seconds(1))
      default: throw error
      }
    }
    return (
      HTTPResponse(status: .init(code: answer.status), headerFields: answer.headers), answer.body
    )
  }
}

extension HTTPFields {
  /// The fields with `traceparent`, if there is a current trace.
  var traced: HTTPFields {
    guard let trace = TraceContext.current, let name = HTTPField.Name("traceparent") else { return self }
    var fields = self
    fields[name] = trace.traceparent
    return fields
  }
}
