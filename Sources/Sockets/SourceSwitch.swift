import Dispatch

/// A dispatch source that is turned on and off and, in the end, cancelled.
///
/// Dispatch counts suspensions, stops the program when a suspended source is released, and tells a
/// suspended one nothing of its cancellation. Here it is on or off, and cancelling always gets through.
final class SourceSwitch {
  private let source: any DispatchSourceProtocol
  private(set) var isOn = false

  /// Takes over a source that has not been resumed yet.
  init(
    _ source: any DispatchSourceProtocol, onEvent: @escaping @Sendable () -> Void,
    onCancel: @escaping @Sendable () -> Void
  ) {
    self.source = source
    source.setEventHandler(handler: onEvent)
    source.setCancelHandler(handler: onCancel)
  }

  func turn(on: Bool) {
    guard on != isOn else { return }
    isOn = on
    if on { source.resume() } else { source.suspend() }
  }

  /// Ends the source; it is told when it can no longer fire.
  func cancel() {
    source.cancel()
    turn(on: true)
  }
}
