import FoundationEssentials
import HTTP
import HTTPTypes

/// The body of `POST /control/lives`.
struct LivesBody: Decodable {
  /// The app whose customers they are.
  let bundleID: String
  /// Of the first; each following life has the next one.
  let seed: UInt64
  /// One if left out.
  let count: UInt64?
  /// When all of them begin, side by side; one after the other from the store's now if left out.
  let from: Date?
}

struct LivesAnswer: Encodable {
  struct Life: Encodable {
    let seed: UInt64
    /// The original transaction ids of what was bought or shared.
    let purchases: [String]
    let notifications: Int
    /// What happened, for a person.
    let history: String
  }

  let lives: [Life]
  /// The store's time after them.
  let now: Date
}

extension ControlRoutes {
  private static let maximumLives: UInt64 = 100

  /// Random lives: each begins now, or where the body says so, and the clock is wound to its end before the
  /// next one.
  func addLives(to router: inout Router) {
    on(.post, "/control/lives", &router) { request in
      let body = try request.decodeJSON(LivesBody.self)
      let count = body.count ?? 1
      guard (1...Self.maximumLives).contains(count), body.seed <= UInt64.max - count else {
        throw Problem.invalidRequest("'count' must be 1 to \(Self.maximumLives).")
      }
      guard let app = store.app(body.bundleID), !app.products.isEmpty else {
        throw Problem.notFound("No app with something to sell has this bundle id.")
      }
      let clock = try virtualClock
      var lives: [LivesAnswer.Life] = []
      for seed in body.seed..<(body.seed + count) {
        let life = RandomLife(
          seed: seed, app: app, environment: environment, from: body.from ?? clock.now)
        let notifications = try store.remember(life)
        // It may have been wound further meanwhile; it never goes back.
        if life.end > clock.now { try? clock.set(to: life.end) }
        _ = await delivered(notifications, for: request)
        lives.append(
          LivesAnswer.Life(
            seed: seed, purchases: life.purchases, notifications: notifications.count,
            history: life.description))
      }
      return try .json(.created, LivesAnswer(lives: lives, now: clock.now), times: .milliseconds)
    }
  }
}
