import Synchronization
import Testing

@testable import receiptd

/// What runs beside the requests is ended, whether it wants to or not.
@Suite struct RunningJobsTests {
  @Test func `what ends when it is told to is waited for`() async {
    let hasCleanedUp = Atomic(false)
    let jobs = RunningJobs {
      try? await Task.sleep(for: .seconds(3_600))
      hasCleanedUp.store(true, ordering: .relaxed)
    }
    #expect(await jobs.end(within: .seconds(60)))
    let isClean = hasCleanedUp.load(ordering: .relaxed)
    #expect(isClean)
  }

  @Test func `what does not end is left behind`() async {
    let (never, end) = AsyncStream.makeStream(of: Void.self)
    let jobs = RunningJobs {
      // Waits in a task of its own, which hears nothing of the cancellation.
      await Task { for await _ in never {} }.value
    }
    #expect(await !jobs.end(within: .milliseconds(20)))
    end.finish()
    #expect(await jobs.end(within: .seconds(60)))
  }
}
