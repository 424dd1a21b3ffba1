import Synchronization
import Testing

@testable import receiptd

/// The stop of the background jobs.
@Suite struct RunningJobsTests {
  @Test func `the stop of the background jobs waits for a job that ends`() async {
    let hasCleanedUp = Atomic(false)
    let jobs = RunningJobs {
      try? await Task.sleep(for: .seconds(3_600))
      hasCleanedUp.store(true, ordering: .relaxed)
    }
    #expect(await jobs.stop(within: .seconds(60)))
    let isClean = hasCleanedUp.load(ordering: .relaxed)
    #expect(isClean)
  }

  @Test func `the stop of the background jobs does not wait longer than its timeout`() async {
    let (never, end) = AsyncStream.makeStream(of: Void.self)
    let jobs = RunningJobs {
      // A task of its own does not get the cancellation.
      await Task { for await _ in never {} }.value
    }
    #expect(await !jobs.stop(within: .milliseconds(20)))
    end.finish()
    #expect(await jobs.stop(within: .seconds(60)))
  }
}
