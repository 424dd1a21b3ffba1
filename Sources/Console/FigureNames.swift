import Configuration
import Numbers
import Subscriptions

/// The names of apps, tiers, products and reasons for a reader, and their places, which give each one order and one colour
/// on every chart.
///
/// The places are those of the configuration: apps in the order of the file, the tiers of an app by rank, its products by
/// id. Names that only figures have come after them.
struct FigureNames: Sendable {
  /// What a name is the name of.
  enum Kind: Sendable {
    case app, tier, product, reason

    init(_ breakdown: FigureBreakdown) {
      switch breakdown {
      case .app: self = .app
      case .tier: self = .tier
      case .product: self = .product
      }
    }

    /// What the series of a chart are; `nil` for a chart with fixed series.
    init?(of chart: FigureChart, _ scope: FigureScope) {
      switch chart {
      case .mrr, .churn: self.init(scope.breakdown)
      case .cancellations, .ends, .refunds: self = .reason
      default: return nil
      }
    }
  }

  /// A name for a reader.
  struct Name: Sendable, Hashable {
    let text: String
    /// The id that the text stands for, if it is another one.
    var id: String?
  }

  private static let reasons = [
    "customer", "billing", "price_increase", "not_for_sale", "refund", "issue", "other", "unknown",
  ]
  /// The classes of colours that names have.
  private static let colours = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
  /// The class of the grey that `(other)` and `(none)` have.
  private static let rest = 6

  private var texts: [Kind: [String: String]] = [:]
  private var places: [Kind: [String: Int]] = [:]

  /// - Parameter bundleID: the only app of a page; without one, a product's name begins with its app's.
  init(_ catalog: AppCatalog, _ choices: BusinessFigures.Choices, bundleID: String?) {
    var ids: [Kind: [String]] = [.reason: Self.reasons]
    for app in catalog.apps {
      ids[.app, default: []].append(app.bundleID)
      texts[.app, default: [:]][app.bundleID] = app.name
      ids[.tier, default: []] += app.tiers.values.sorted { ($0.rank, $0.name) < ($1.rank, $1.name) }.map(
        \.name)
      ids[.product, default: []] += app.products.keys.sorted()
      let prefix = bundleID == nil && catalog.apps.count > 1 ? app.name + " " : ""
      for (id, name) in Self.products(of: app) where texts[.product]?[id] == nil {
        texts[.product, default: [:]][id] = prefix + name
      }
    }
    ids[.app, default: []] += choices.apps
    ids[.tier, default: []] += choices.tiers
    ids[.product, default: []] += choices.products
    for (kind, ids) in ids {
      for id in ids where places[kind]?[id] == nil {
        places[kind, default: [:]][id] = places[kind]?.count ?? 0
      }
    }
  }

  /// The short names of all products by id, for a page that names the app beside them.
  static func products(_ catalog: AppCatalog) -> [String: String] {
    Dictionary(catalog.apps.flatMap(products(of:))) { first, _ in first }
  }

  /// For each id the last segments that no other id of the app ends with, such as `monthly`.
  private static func products(of app: App) -> [(String, String)] {
    let ids = app.products.keys.sorted()
    return ids.map { id in
      let segments = id.split(separator: ".")
      let name = segments.indices.reversed().lazy
        .map { segments[$0...].joined(separator: ".") }
        .first { name in !ids.contains { $0 != id && ($0 == name || $0.hasSuffix("." + name)) } }
      return (id, name ?? id)
    }
  }

  /// The name of an id. An id that the configuration does not have is its own name.
  func name(_ id: String, _ kind: Kind) -> Name {
    if kind == .reason { return Name(text: FigureText.title(id)) }
    guard let text = texts[kind]?[id], text != id else { return Name(text: id) }
    return Name(text: text, id: id)
  }

  /// The class of the colour of an id.
  func colour(_ id: String, _ kind: Kind) -> Int {
    places[kind]?[id].map { Self.colours[$0 % Self.colours.count] } ?? Self.rest
  }

  /// The ids in the order of their places; `(none)` and `(other)` come last.
  func ordered(_ ids: [String], _ kind: Kind) -> [String] {
    ids.enumerated().sorted { left, right in
      let (first, second) = (places[kind]?[left.element] ?? .max, places[kind]?[right.element] ?? .max)
      return (first, left.offset) < (second, right.offset)
    }.map(\.element)
  }

  /// The table of a chart with its series in the order of their places.
  func ordered(_ table: FigureTable, of chart: FigureChart, _ scope: FigureScope) -> FigureTable {
    guard let kind = Kind(of: chart, scope) else { return table }
    return table.withColumns(ordered(table.columns.dropFirst().map(\.name), kind))
  }
}
