import Foundation

/// How many times a purchase or a trial moved to another customer by the app's rules, within 24 hours.
///
/// A proof fits any device id that a client invents, and each move leaves rows that are never deleted. The count is
/// stored with the purchase or the trial and read under its lock, so that it holds for all servers and over restarts.
public struct MoveCount: Sendable, Hashable {
  /// The first of these moves. 24 hours later a new count begins.
  public let since: Date
  /// The number of moves, at least 1.
  public let moves: Int

  /// Creates a count from a stored one.
  public init(since: Date, moves: Int) {
    self.since = since
    self.moves = moves
  }

  static let length: TimeInterval = 86_400

  fileprivate func isOver(at instant: Date) -> Bool { instant >= since + Self.length }
}

extension MoveCount? {
  /// Whether one more move stays within the limit.
  public func allowsMove(limit: Int, at instant: Date) -> Bool {
    guard let self, !self.isOver(at: instant) else { return true }
    return self.moves < limit
  }

  /// Whether there were more moves within 24 hours than a family's reinstalls explain. From then on the customer that
  /// came last gives way, so invented devices replace each other.
  public func areMany(at instant: Date) -> Bool {
    guard let self, !self.isOver(at: instant) else { return false }
    return self.moves >= 3
  }

  /// The count after one more move.
  public func counting(moveAt instant: Date) -> MoveCount {
    guard let self, !self.isOver(at: instant) else { return MoveCount(since: instant, moves: 1) }
    return MoveCount(since: self.since, moves: self.moves + 1)
  }

  /// The time until a new count begins.
  public func wait(at instant: Date) -> TimeInterval {
    guard let self else { return 0 }
    return max(0, (self.since + MoveCount.length).timeIntervalSince(instant))
  }
}
