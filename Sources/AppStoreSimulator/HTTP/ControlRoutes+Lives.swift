import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  private static let maximumLives: UInt64 = 100

  /// Adds the route for random lives. Each begins at the store's time, or at the body's start, and the clock advances
  /// to its end.
  func addLives(to router: inout Router) {
    on(.post, "lives", &router) { request in
      let body = try request.decodeJSON(LivesBody.self)
      let count = body.count ?? 1
      guard (1...Self.maximumLives).contains(count), body.seed <= UInt64.max - count else {
        throw Problem.invalidRequest("'count' must be 1 to \(Self.maximumLives).")
      }
      guard let app = store.app(body.bundleID), !app.products.isEmpty else {
        throw Problem.notFound("No app with something to sell has this bundle id.")
      }
      var lives: [LivesAnswer.Life] = []
      for seed in body.seed..<(body.seed + count) {
        let life = RandomLife(
          seed: seed, app: app, environment: environment(of: request), from: body.from ?? store.clock.now)
        let notifications = try store.remember(life)
        // Another request may have set the clock further; it never goes back.
        try? store.clock.set(to: life.end)
        for notification in notifications { _ = await delivered(notification, for: request) }
        lives.append(
          LivesAnswer.Life(
            seed: seed, purchases: life.purchases, notifications: notifications.count,
            history: life.description))
      }
      return LivesAnswer(lives: lives, now: store.clock.now)
    }
  }
}

/// The body of `POST /control/lives`.
private struct LivesBody: Decodable {
  /// The app of the customers.
  let bundleID: String
  /// The seed of the first life; each following life has the next seed.
  let seed: UInt64
  /// The number of lives; one by default.
  let count: UInt64?
  /// The common start of all lives; by default they follow each other from the store's time.
  let from: Date?
}

private struct LivesAnswer: Encodable {
  struct Life: Encodable {
    let seed: UInt64
    /// The original transaction ids of all purchases and shares.
    let purchases: [String]
    let notifications: Int
    /// The history as readable text.
    let history: String
  }

  let lives: [Life]
  /// The store's time afterwards.
  let now: Date
}
