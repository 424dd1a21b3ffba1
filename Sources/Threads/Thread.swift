import Glibc

/// A thread of the system's own: a loop that waits in a system call must not take one of Dispatch's or of the
/// cooperative pool's.
public enum Thread {
  /// Runs `body` on a new thread.
  /// - Parameter name: what `top -H` and debuggers call it; the system keeps 15 bytes.
  /// - Returns: whether there is one; the system may have no more.
  public static func start(named name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
    let box = Unmanaged.passRetained(
      Body(run: {
        call(name)
        body()
      }))
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

  /// Names the calling thread; without /proc it keeps the name of who started it. (Swift's module of the C library leaves
  /// pthread_setname_np(3) out.)
  private static func call(_ name: String) {
    let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    _ = write(file, name, name.utf8.count)
    close(file)
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void

    init(run: @escaping @Sendable () -> Void) { self.run = run }
  }
}
