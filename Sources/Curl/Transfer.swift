import CLibcurl
import Foundation
import HTTPTypes
import Platform
import Synchronization

/// A request with the received part of its response.
///
/// The caller makes it and passes it to the loop's thread; afterwards only that thread uses it.
final class Transfer {
  let id: UInt64
  let request: CurlRequest
  /// The scheme, the host and the port as the URL has them.
  let host: String
  let deadline: ContinuousClock.Instant
  /// Whether the caller's task was cancelled. Needed because the loop may receive the cancellation before the transfer.
  let isCancelled: CancellationFlag
  private let finish: (Result<CurlResponse, CurlError>) -> Void
  private var isFinished = false

  private var head = HeadCollector()
  private var body: [UInt8] = []
  private var isTooLarge = false
  private var hasPrivateAddress = false
  /// The header list, which libcurl reads during the transfer.
  private var headerList: UnsafeMutablePointer<curl_slist>?

  init(
    id: UInt64, request: CurlRequest, isCancelled: CancellationFlag,
    finish: @escaping (Result<CurlResponse, CurlError>) -> Void
  ) {
    self.id = id
    self.request = request
    host = Self.host(of: request.url)
    self.isCancelled = isCancelled
    self.finish = finish
    deadline = .now + request.timeout
  }

  deinit { curl_slist_free_all(headerList) }

  private static func host(of url: String) -> String {
    let start = url.firstRange(of: "://")?.upperBound ?? url.startIndex
    let end = url[start...].firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? url.endIndex
    return String(url[..<end])
  }

  /// Resumes the caller with the result. Later calls do nothing.
  func end(_ result: Result<CurlResponse, CurlError>) {
    guard !isFinished else { return }
    isFinished = true
    finish(result)
  }

  // MARK: Options

  /// Makes a handle for this transfer.
  ///
  /// - Returns: nil if libcurl does not accept the request.
  func makeHandle(_ configuration: CurlConfiguration) -> UnsafeMutableRawPointer? {
    guard let handle = curl_easy_init() else { return nil }
    var options = Options(handle: handle)
    setBasics(&options, configuration)
    setRequest(&options)
    // The loop retains the transfer until the handle is freed, so the pointer stays valid.
    let context = Unmanaged.passUnretained(self).toOpaque()
    options.set(CURLOPT_PRIVATE, context)
    options.set(CURLOPT_HEADERDATA, context)
    options.set(CURLOPT_WRITEDATA, context)
    options.set(CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
      Transfer.receive(bytes, size * count, context) { $0.receiveHead($1) }
    }
    options.set(CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
      Transfer.receive(bytes, size * count, context) { $0.receiveBody($1) }
    }
    if configuration.refusesPrivateAddresses {
      options.set(CURLOPT_PROXY, "")
      options.set(CURLOPT_OPENSOCKETDATA, context)
      options.setSocketOpener { context, _, address in Transfer.openSocket(to: address, context) }
    }
    guard options.areAllAccepted else {
      curl_easy_cleanup(handle)
      return nil
    }
    return handle
  }

  private func setBasics(_ options: inout Options, _ configuration: CurlConfiguration) {
    options.set(CURLOPT_NOSIGNAL, 1)
    options.set(CURLOPT_PROTOCOLS_STR, "http,https")
    options.set(CURLOPT_FOLLOWLOCATION, 0)
    options.set(CURLOPT_SSL_VERIFYPEER, 1)
    options.set(CURLOPT_SSL_VERIFYHOST, 2)
    options.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
    options.set(CURLOPT_TIMEOUT_MS, max(1, (deadline - .now).milliseconds))
    options.set(CURLOPT_CONNECTTIMEOUT_MS, max(1, request.connectTimeout.milliseconds))
    if !configuration.userAgent.isEmpty { options.set(CURLOPT_USERAGENT, configuration.userAgent) }
    if let file = configuration.certificateAuthorities { options.set(CURLOPT_CAINFO, file) }
  }

  private func setRequest(_ options: inout Options) {
    options.set(CURLOPT_URL, request.url)
    options.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
    if request.method == .head { options.set(CURLOPT_NOBODY, 1) }
    if let body = request.body {
      options.set(CURLOPT_POSTFIELDSIZE_LARGE, large: curl_off_t(body.count))
      options.setCopied(body)
    }
    // Otherwise libcurl sends `Expect: 100-continue` before bodies and waits a second for the response.
    append("Expect:")
    if !request.headers.contains(.contentType) { append("Content-Type:") }
    for field in request.headers {
      // A field without a value needs a semicolon (CURLOPT_HTTPHEADER).
      append(field.value.isEmpty ? "\(field.name.rawName);" : "\(field.name.rawName): \(field.value)")
    }
    options.set(CURLOPT_HTTPHEADER, headerList.map { UnsafeMutableRawPointer($0) })
  }

  private func append(_ line: String) {
    headerList = curl_slist_append(headerList, line) ?? headerList
  }

  // MARK: Callbacks

  /// Opens the socket for an address to which libcurl connects (CURLOPT_OPENSOCKETFUNCTION).
  private static func openSocket(
    to address: UnsafeMutablePointer<curl_sockaddr>?, _ context: UnsafeMutableRawPointer?
  ) -> curl_socket_t {
    guard let address, let context else { return CURL_SOCKET_BAD }
    // `addr` is declared as `sockaddr`, and has `addrlen` bytes.
    let start = UnsafeRawPointer(address) + (MemoryLayout<curl_sockaddr>.offset(of: \.addr) ?? 0)
    let bytes = UnsafeRawBufferPointer(start: start, count: Int(address.pointee.addrlen))
    guard IPAddress(socketAddress: bytes)?.isPublic ?? false else {
      Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue().hasPrivateAddress = true
      return CURL_SOCKET_BAD
    }
    let descriptor = socket(address.pointee.family, address.pointee.socktype, address.pointee.protocol)
    if descriptor >= 0 { Platform.prepare(descriptor) }
    return descriptor
  }

  private static func receive(
    _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int, _ context: UnsafeMutableRawPointer?,
    _ take: (Transfer, UnsafeRawBufferPointer) -> Bool
  ) -> Int {
    guard let context else { return 0 }
    let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
    return take(transfer, UnsafeRawBufferPointer(start: bytes, count: count)) ? count : 0
  }

  private func receiveHead(_ line: UnsafeRawBufferPointer) -> Bool {
    head.take(line)
    isTooLarge = head.isTooLarge
    return !isTooLarge
  }

  private func receiveBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
    isTooLarge = body.count + bytes.count > request.maximumResponseLength
    if !isTooLarge { body.append(contentsOf: bytes) }
    return !isTooLarge
  }

  // MARK: End

  /// The response that libcurl has received, or the reason why there is none.
  func result(_ handle: UnsafeMutableRawPointer, _ code: CURLcode) -> Result<CurlResponse, CurlError> {
    guard code == CURLE_OK else { return .failure(failure(code)) }
    var status = 0
    var version = 0
    _ = receiptd_curl_get_long(handle, CURLINFO_RESPONSE_CODE, &status)
    _ = receiptd_curl_get_long(handle, CURLINFO_HTTP_VERSION, &version)
    // RFC 9110 §15. libcurl accepts any number after `HTTP/2`, even over HTTP/1.1, and `HTTPResponse` stops the process
    // for a status of another length.
    guard (100...999).contains(status) else {
      return .failure(
        .other(code: Int(CURLE_WEIRD_SERVER_REPLY.rawValue), "The response has no valid status."))
    }
    return .success(
      CurlResponse(
        status: status, headers: head.fields, body: body, httpVersion: CurlResponse.Version(curl: version)))
  }

  private func failure(_ code: CURLcode) -> CurlError {
    if isTooLarge { return .tooLarge }
    // A host may have public addresses too, whose connections failed; the private address is the more useful reason.
    if hasPrivateAddress { return .refused("the host has a private address") }
    return CurlError(code)
  }
}

/// Whether the task that waits for a transfer was cancelled.
final class CancellationFlag: Sendable {
  private let flag = Atomic<Bool>(false)

  var isRaised: Bool { flag.load(ordering: .acquiring) }

  func raise() { flag.store(true, ordering: .releasing) }
}

extension CurlResponse.Version {
  fileprivate init(curl version: Int) {
    switch version {
    case Int(CURL_HTTP_VERSION_1_0): self = .http10
    case Int(CURL_HTTP_VERSION_1_1): self = .http11
    case Int(CURL_HTTP_VERSION_2_0), Int(CURL_HTTP_VERSION_2TLS): self = .http2
    default: self = .other
    }
  }
}

extension Duration {
  /// Rounded down.
  fileprivate var milliseconds: Int {
    Int(components.seconds) * 1000 + Int(components.attoseconds / 1_000_000_000_000_000)
  }
}

/// Collects the header fields of the final response from libcurl's header lines.
struct HeadCollector {
  private(set) var fields: HTTPFields = [:]
  private var length = 0
  private var isComplete = false

  private static let maximumLength = 64 << 10

  /// Whether the head exceeds the limit.
  var isTooLarge: Bool { length > Self.maximumLength }

  /// Processes a status line, a field, or the empty line at the end of a head. The heads of interim responses come
  /// first, and trailers come last; only the last head counts.
  mutating func take(_ line: UnsafeRawBufferPointer) {
    length += line.count
    let text = line.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
    if text.starts(with: "HTTP/".utf8) {
      fields = [:]
      isComplete = false
      return
    }
    guard !text.isEmpty else {
      isComplete = true
      return
    }
    guard !isComplete, let colon = text.firstIndex(of: UInt8(ascii: ":")),
      let name = HTTPField.Name(String(decoding: text[..<colon], as: UTF8.self))
    else { return }
    let value = String(decoding: text[(colon + 1)...], as: UTF8.self)
    fields.append(HTTPField(name: name, value: trimmed(value)))
  }

  private func trimmed(_ value: String) -> String {
    func isBlank(_ character: Character) -> Bool { character == " " || character == "\t" }
    return String(value.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
  }
}

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
