import FoundationEssentials
import Postgres
import Subscriptions

extension MoveCount {
  /// Decodes the columns `counted_moves` and `counted_moves_since` of a purchase or a trial.
  ///
  /// - Returns: `nil` where it never moved.
  init?(_ row: Row) throws {
    guard let since = try row.decode("counted_moves_since", as: Date?.self) else { return nil }
    self.init(since: since, moves: Int(try row.decode("counted_moves", as: Int32.self)))
  }
}
