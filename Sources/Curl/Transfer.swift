import CLibcurl
import Glibc
import HTTPTypes
import Synchronization

/// One request on its way, with what has arrived of its answer.
///
/// Made by the caller and then handed to the loop's thread, which alone touches it from then on.
final class Transfer {
  let id: UInt64
  let request: CurlRequest
  let deadline: ContinuousClock.Instant
  /// Whether the caller has gone. Said here too, because its word to the loop can overtake the transfer.
  let isCancelled: CancellationFlag
  private let finish: (Result<CurlResponse, CurlError>) -> Void
  private var isFinished = false

  private var head = HeadCollector()
  private var body: [UInt8] = []
  private var isTooLarge = false
  private var metPrivateAddress = false
  /// libcurl reads the header list and the body during the transfer.
  private var headerList: UnsafeMutablePointer<curl_slist>?

  init(
    id: UInt64, request: CurlRequest, isCancelled: CancellationFlag,
    finish: @escaping (Result<CurlResponse, CurlError>) -> Void
  ) {
    self.id = id
    self.request = request
    self.isCancelled = isCancelled
    self.finish = finish
    deadline = .now + request.timeout
  }

  deinit { curl_slist_free_all(headerList) }

  /// Tells the caller how it ended; only the first word counts.
  func end(_ result: Result<CurlResponse, CurlError>) {
    guard !isFinished else { return }
    isFinished = true
    finish(result)
  }

  // MARK: Before

  /// Prepares a handle for this transfer.
  /// - Returns: `nil` if the request cannot be sent as it is.
  func makeHandle(_ configuration: CurlConfiguration) -> UnsafeMutableRawPointer? {
    guard let handle = curl_easy_init() else { return nil }
    var options = Options(handle: handle)
    setBasics(&options, configuration)
    setRequest(&options)
    // The loop keeps the transfer until the handle is gone, so the pointer stays good.
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
    guard options.areAllTaken else {
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
    // A second request to a host waits for the first one's connection, which may turn out to be HTTP/2.
    options.set(CURLOPT_PIPEWAIT, 1)
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
    // Without this, libcurl asks for '100 Continue' before bodies and waits a second for it.
    append("Expect:")
    if !request.headers.contains(.contentType) { append("Content-Type:") }
    for field in request.headers {
      // A field without a value is written with a semicolon (CURLOPT_HTTPHEADER).
      append(field.value.isEmpty ? "\(field.name.rawName);" : "\(field.name.rawName): \(field.value)")
    }
    options.set(CURLOPT_HTTPHEADER, headerList.map { UnsafeMutableRawPointer($0) })
  }

  private func append(_ line: String) {
    headerList = curl_slist_append(headerList, line) ?? headerList
  }

  // MARK: Meanwhile

  /// A socket for an address that libcurl is about to connect to (CURLOPT_OPENSOCKETFUNCTION).
  private static func openSocket(
    to address: UnsafeMutablePointer<curl_sockaddr>?, _ context: UnsafeMutableRawPointer?
  ) -> curl_socket_t {
    guard let address, let context else { return CURL_SOCKET_BAD }
    // `addr` is declared as the short form of an address; `addrlen` bytes are there.
    let start = UnsafeRawPointer(address) + (MemoryLayout<curl_sockaddr>.offset(of: \.addr) ?? 0)
    let bytes = UnsafeRawBufferPointer(start: start, count: Int(address.pointee.addrlen))
    guard PublicAddress.isPublic(socketAddress: bytes) else {
      Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue().metPrivateAddress = true
      return CURL_SOCKET_BAD
    }
    let kind = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
    return socket(address.pointee.family, kind, address.pointee.protocol)
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

  // MARK: Afterwards

  /// Ends it as libcurl says that it ended.
  func end(_ handle: UnsafeMutableRawPointer, _ code: CURLcode) {
    guard code == CURLE_OK else {
      end(.failure(failure(code)))
      return
    }
    var status = 0
    var version = 0
    _ = receiptd_curl_get_long(handle, CURLINFO_RESPONSE_CODE, &status)
    _ = receiptd_curl_get_long(handle, CURLINFO_HTTP_VERSION, &version)
    // RFC 9110 §15. Behind `HTTP/2` libcurl takes whatever number a server puts there, even over HTTP/1.1, and a status of
    // another length ends the process where it becomes an `HTTPResponse`.
    guard (100...999).contains(status) else {
      return end(.failure(.other(code: Int(CURLE_WEIRD_SERVER_REPLY.rawValue), "The answer has no status.")))
    }
    end(
      .success(
        CurlResponse(
          status: status, headers: head.fields, body: body,
          httpVersion: CurlResponse.Version(curl: version))))
  }

  private func failure(_ code: CURLcode) -> CurlError {
    if isTooLarge { return .tooLarge }
    // A host with public addresses as well may have failed for another reason; this one is ours to tell.
    if metPrivateAddress { return .refused("the host has a private address") }
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
