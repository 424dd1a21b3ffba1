import Foundation
import ReceiptdClient

struct TafsirFeatures: Codable, Sendable {
  var surahs: Limit
  var commentaryLayers: Int

  static let free = TafsirFeatures(surahs: 1, commentaryLayers: 5)
  static let premium = TafsirFeatures(surahs: 114, commentaryLayers: 5)
}

struct TafsirPlan: Sendable {
  let receiptd: Receiptd<TafsirFeatures>

  /// - Parameter verdict: `Receiptd.storeKitVerdict(["com.thaqalayn.premium.tafsir"], opens: .premium, tier: "premium")`. Without a
  ///   network and without a kept entitlement StoreKit's own verdict decides.
  init(
    server: URL, session: @escaping @Sendable (Bool) async throws -> String?,
    verdict: @escaping @Sendable (Customer) async -> DeviceVerdict<TafsirFeatures>?
  ) {
    receiptd = Receiptd(
      ReceiptdConfiguration(server: server, bundleID: "com.thaqalayn.app"), free: .free, token: session,
      deviceVerdict: verdict)
  }

  /// At each sign-in, with `AppTransaction.shared`: an owner from before 2025-10-07 is premium for good.
  func signIn(_ user: UUID, appTransaction: String?) async throws {
    await receiptd.signIn(.user(user))
    try await receiptd.sync([], appTransaction: appTransaction)
  }

  func isOpen(surah: Int) -> Bool { OrderedAccess(open: receiptd.current.features.surahs).isOpen(surah) }
}
