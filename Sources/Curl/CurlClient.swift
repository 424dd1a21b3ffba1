import Synchronization

/// How many requests at once, and to whom.
public struct CurlConfiguration: Sendable {
  /// The most requests on their way.
  public var maximumInFlight = 64
  /// The most requests that wait for their turn; the next one gets `.busy`.
  public var maximumQueued = 1024
  /// The most connections to one host.
  public var maximumConnectionsPerHost = 8
  /// The `User-Agent` field; empty for none.
  public var userAgent: String
  /// A PEM file of roots to trust instead of the system's; for tests and private gateways.
  public var certificateAuthorities: String?
  /// Whether only public addresses are connected to: for URLs that somebody else chose. What a name resolves
  /// to is checked at the moment of connecting, so a name server cannot say one thing and then another.
  /// No proxy is used then, since it would do the connecting unchecked.
  public var refusesPrivateAddresses = false

  /// The defaults.
  public init(userAgent: String = "") {
    self.userAgent = userAgent
  }
}

/// Sends HTTP requests through libcurl's multi interface: HTTP/2 where it is offered, connections
/// reused, certificates always verified, redirects never followed.
///
/// One thread of its own drives all transfers; callers only wait.
public final class CurlClient: Sendable {
  private let loop: TransferLoop
  private let nextID = Atomic<UInt64>(0)

  /// A client that has not connected to anything yet. Its thread ends with it.
  public init(configuration: CurlConfiguration = CurlConfiguration()) {
    loop = TransferLoop(configuration: configuration)
  }

  deinit { loop.shutDown() }

  /// Sends a request and waits for its whole answer. Any status is an answer, not an error.
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

  /// Ends what is under way with `.shutDown` and closes all connections.
  public func shutDown() async {
    await withCheckedContinuation { continuation in
      loop.shutDown { continuation.resume() }
    }
  }
}
