import Glibc
import Synchronization
import Testing

@testable import Postgres

struct SocketThreadTests {
  private final class Watcher: SocketWatcher {
    let socket: Int32
    let told: AsyncStream<Int>
    private let tell: AsyncStream<Int>.Continuation

    init(_ socket: Int32) {
      self.socket = socket
      (told, tell) = AsyncStream.makeStream()
    }

    func readable() {
      var bytes = [UInt8](repeating: 0, count: 64)
      tell.yield(read(socket, &bytes, bytes.count))
    }

    func writable() { tell.yield(-1) }
  }

  private func socketPair() throws -> (Int32, Int32) {
    var sockets: [Int32] = [0, 0]
    try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &sockets) == 0)
    return (sockets[0], sockets[1])
  }

  @Test func `tasks that prefer it run on one thread, whoever hands them over`() async {
    let thread = SocketThread()
    defer { thread.stop() }
    let threads = await withTaskGroup(of: pthread_t.self) { group in
      for _ in 0..<200 {
        group.addTask(executorPreference: thread) {
          await Task.yield()
          return pthread_self()
        }
      }
      return await group.reduce(into: Set<pthread_t>()) { $0.insert($1) }
    }
    #expect(threads.count == 1)
    #expect(!threads.contains(pthread_self()))
  }

  @Test func `a watcher is told of what comes until it is removed`() async throws {
    let thread = SocketThread()
    defer { thread.stop() }
    let (ours, theirs) = try socketPair()
    defer {
      close(ours)
      close(theirs)
    }
    let watcher = Watcher(ours)
    var told = watcher.told.makeAsyncIterator()
    let number = try #require(thread.add(watcher, ours))
    for count in [1, 5, 3] {
      write(theirs, "12345", count)
      #expect(await told.next() == count)
    }
    // There is always room for more.
    thread.change(number, ours, alsoWrites: true)
    #expect(await told.next() == -1)
    thread.change(number, ours, alsoWrites: false)
    thread.remove(number, ours)
    write(theirs, "12345", 5)
    // What is handed over now runs after whatever else the thread would have found.
    await Task(executorPreference: thread) { await Task.yield() }.value
    var unread: Int32 = 0
    #expect(ioctl(ours, UInt(FIONREAD), &unread) == 0)
    #expect(unread == 5)
  }

  @Test func `what the system cannot watch is refused, and does not keep the thread alive`() async throws {
    let thread = SocketThread()
    // epoll_ctl(2): EPERM for a regular file, EBADF for none at all.
    let file = open("/proc/self/exe", O_RDONLY)
    try #require(file >= 0)
    defer { close(file) }
    #expect(thread.add(Watcher(file), file) == nil)
    #expect(thread.add(Watcher(-1), -1) == nil)
    #expect(await goesOnElsewhere(afterStopping: thread))
  }

  @Test func `a task that outlives the thread that it prefers goes on`() async {
    let thread = SocketThread()
    #expect(await goesOnElsewhere(afterStopping: thread))
  }

  /// Whether the thread ends once it is told to, and a task that prefers it goes on without it.
  private func goesOnElsewhere(afterStopping thread: SocketThread) async -> Bool {
    await Task(executorPreference: thread) {
      thread.stop()
      let first = pthread_self()
      let deadline = ContinuousClock.now + .seconds(120)
      while pthread_self() == first, ContinuousClock.now < deadline {
        // While this is awaited, the thread has nothing to run and may end.
        await Task.detached { _ = usleep(100) }.value
      }
      return pthread_self() != first
    }.value
  }
}
