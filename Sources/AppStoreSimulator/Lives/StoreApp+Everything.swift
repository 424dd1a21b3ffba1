import AppStore

extension StoreApp {
  /// An app with all product variants: levels, lengths and groups of subscriptions, a weekly one that is shorter than
  /// its billing grace, family-shareable products, and one-time purchases of every kind.
  public static let everything = StoreApp(
    bundleID: "com.example.everything", appAppleID: 1_500_000_009,
    products: [
      .subscription("basic.weekly", period: .week), .subscription("basic.monthly"),
      .subscription("basic.monthly.other"), .subscription("basic.annual", period: .year),
      .subscription("plus.weekly", period: .week, rank: 2),
      .subscription("family.monthly", rank: 3, isFamilyShareable: true),
      .subscription("news.monthly", group: "20000002", isFamilyShareable: true),
      .oneTime("lifetime", isFamilyShareable: true), .oneTime("coins", type: .consumable),
      .oneTime("season", type: .nonRenewingSubscription),
    ])
}
