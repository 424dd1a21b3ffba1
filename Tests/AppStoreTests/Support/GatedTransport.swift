import HTTPTypes
import Synchronization

@testable import AppStore

/// An HTTP client whose responses wait until the test opens the gate.
final class GatedTransport: HTTPTransport {
  private struct State {
    var isOpen = false
    var paths: [String] = []
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  var paths: [String] { state.withLock { $0.paths } }

  func open() {
    let waiting = state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8]) {
    await withCheckedContinuation { continuation in
      let isOpen = state.withLock { state in
        state.paths.append(request.path ?? "")
        if !state.isOpen { state.waiting.append(continuation) }
        return state.isOpen
      }
      if isOpen { continuation.resume() }
    }
    return (HTTPResponse(status: .ok), Array(#"{"signedTransactionInfo":"jws"}"#.utf8))
  }
}
