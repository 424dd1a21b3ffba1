import Glibc

/// A thread of the system's own: a loop that waits in a system call must not take one of Dispatch's or of the
/// cooperative pool's.
public enum Thread {
  /// Runs `body` on a new thread.
  /// - Returns: whether there is one; the system may have no more.
  public static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
    let box = Unmanaged.passRetained(Body(run: body))
    var thread = pthread_t()
    let status = pthread_create(
      &thread, nil,
      { context in
        guard let context else { return nil }
        Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
        return nil
      }, box.toOpaque())
    guard status == 0 else {
      // No thread was made, so nobody else will let go of it.
      box.release()
      return false
    }
    pthread_detach(thread)
    return true
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void

    init(run: @escaping @Sendable () -> Void) { self.run = run }
  }
}
