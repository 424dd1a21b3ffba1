import CLibcurl
import Foundation
import HTTPTypes
/// How many requests at once, and to whom.
public struct CurlConfiguration: Sendable {
  /// The most requests on their way.
  public var maximumInFlight = 64
  /// The most requests that wait for their turn; the next one gets `.busy`.
  public var maximumQueued = 1024
  /// The most connections to one host.
  public var maximumConnectionsPerHost = 8
  /// The `User-Agent` field.
  public var userAgent: String
  /// A PEM file of roots to trust instead of the system's; for tests and private gateways.
  public var certificateAuthorities: String?

  /// The defaults.
  public init(userAgent: String = "") {
    self.userAgent = userAgent
  }
}

/// Sends HTTP requests through libcurl's multi interface: HTTP/2 where it is offered, connections
/// reused, certificates always verified, redirects never followed.
public final class CurlClient: Sendable {
  /// A client that has not connected to anything yet.
  public init(configuration: CurlConfiguration = CurlConfiguration()) {
  }

  /// Sends a request and waits for its whole answer. Any status is an answer, not an error.
  nonisolated(nonsending) public func send(_ request: CurlRequest) async throws(CurlError) -> CurlResponse {
    let result: Result<CurlResponse, CurlError> = await withCheckedContinuation { c in
      Thread.detachNewThread { c.resume(returning: Self.stopgap(request)) }
    }
    return try result.get()
  }

  /// Ends what is under way with `.shutDown` and closes all connections.
  public func shutDown() async {
  }

  private static let queue = DispatchQueue(label: "stopgap", attributes: .concurrent)
  final class Box { var head: [UInt8] = []; var body: [UInt8] = [] }
  static func stopgap(_ request: CurlRequest) -> Result<CurlResponse, CurlError> {
    let h = curl_easy_init()!
    defer { curl_easy_cleanup(h) }
    var list: UnsafeMutablePointer<curl_slist>?
    for f in request.headers { list = curl_slist_append(list, "\(f.name.rawName): \(f.value)") }
    list = curl_slist_append(list, "Expect:")
    defer { curl_slist_free_all(list) }
    let box = Box()
    let p = Unmanaged.passUnretained(box).toOpaque()
    _ = request.url.withCString { receiptd_curl_set_pointer(h, CURLOPT_URL, $0) }
    _ = request.method.rawValue.withCString { receiptd_curl_set_pointer(h, CURLOPT_CUSTOMREQUEST, $0) }
    _ = receiptd_curl_set_pointer(h, CURLOPT_HTTPHEADER, list)
    _ = receiptd_curl_set_long(h, CURLOPT_NOSIGNAL, 1)
    _ = receiptd_curl_set_long(h, CURLOPT_TIMEOUT, 10)
    _ = receiptd_curl_set_writer(h, CURLOPT_WRITEFUNCTION) { d, a, n, u in
      Unmanaged<Box>.fromOpaque(u!).takeUnretainedValue().body.append(contentsOf: UnsafeRawBufferPointer(start: d, count: a * n)); return a * n }
    _ = receiptd_curl_set_pointer(h, CURLOPT_WRITEDATA, p)
    _ = receiptd_curl_set_writer(h, CURLOPT_HEADERFUNCTION) { d, a, n, u in
      Unmanaged<Box>.fromOpaque(u!).takeUnretainedValue().head.append(contentsOf: UnsafeRawBufferPointer(start: d, count: a * n)); return a * n }
    _ = receiptd_curl_set_pointer(h, CURLOPT_HEADERDATA, p)
    let body = request.body ?? []
    let code = body.withUnsafeBytes { b -> CURLcode in
      if request.body != nil {
        _ = receiptd_curl_set_pointer(h, CURLOPT_POSTFIELDS, b.baseAddress ?? UnsafeRawPointer(p))
        _ = receiptd_curl_set_long(h, CURLOPT_POSTFIELDSIZE, b.count)
        _ = request.method.rawValue.withCString { receiptd_curl_set_pointer(h, CURLOPT_CUSTOMREQUEST, $0) }
      }
      return curl_easy_perform(h)
    }
    guard code == CURLE_OK else { return .failure(.couldNotConnect("\(code)")) }
    var status = 0
    _ = receiptd_curl_get_long(h, CURLINFO_RESPONSE_CODE, &status)
    var headers = HTTPFields()
    for line in String(decoding: box.head, as: UTF8.self).split(separator: "\r\n").dropFirst() {
      let kv = line.split(separator: ":", maxSplits: 1)
      if kv.count == 2, let n = HTTPField.Name(String(kv[0])) { headers[n] = kv[1].drop { $0 == " " }.description }
    }
    return .success(CurlResponse(status: status, headers: headers, body: box.body, httpVersion: .http11))
  }
}
