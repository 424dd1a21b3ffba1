import Synchronization

/// The limits and TLS settings of a ``CurlClient``.
public struct CurlConfiguration: Sendable {
  /// The limit of concurrent requests.
  public var maximumInFlight = 64
  /// The limit of queued requests; the next one gets `.busy`.
  public var maximumQueued = 1024
  /// The limit of connections to one host.
  public var maximumConnectionsPerHost = 8
  /// The `User-Agent` field; empty for none.
  public var userAgent: String
  /// A PEM file of trusted roots that replaces the system's; for tests and private gateways.
  public var certificateAuthorities: String?
  /// Whether the client connects to public addresses only; for untrusted URLs. The resolved address is checked when its
  /// socket is opened, which prevents DNS rebinding. No proxy is used then, because a proxy would not check the address.
  public var refusesPrivateAddresses = false

  /// The defaults.
  public init(userAgent: String = "") {
    self.userAgent = userAgent
  }
}

/// An HTTP client over libcurl's multi interface. It uses HTTP/2 if the server supports it, reuses connections, always
/// verifies certificates, and never follows redirects.
///
/// One thread of its own runs all transfers.
public final class CurlClient: Sendable {
  private let loop: TransferLoop
  private let nextID = Atomic<UInt64>(0)

  /// A client without connections. Its thread ends when the client is released.
  public init(configuration: CurlConfiguration = CurlConfiguration()) {
    loop = TransferLoop(configuration: configuration)
  }

  deinit { loop.shutDown() }

  /// Sends a request and waits for its complete response. No status is an error.
  nonisolated(nonsending) public func send(_ request: CurlRequest) async throws(CurlError) -> CurlResponse {
    let id = nextID.add(1, ordering: .relaxed).newValue
    let flag = CancellationFlag()
    let result: Result<CurlResponse, CurlError> = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        loop.submit(
          Transfer(id: id, request: request, isCancelled: flag) { continuation.resume(returning: $0) })
      }
    } onCancel: {
      flag.raise()
      loop.cancel(id)
    }
    return try result.get()
  }

  /// Fails the current requests with `.shutDown` and closes all connections.
  public func shutDown() async {
    await withCheckedContinuation { continuation in
      loop.shutDown { continuation.resume() }
    }
  }
}
