import Synchronization

/// A metric with labels: a handle of swift-metrics for each combination of label values.
///
/// If the sets of all labels' values are closed, all handles are made at the declaration with value 0, so that an alert
/// sees the first increase.
package final class MetricFamily<Handle: AnyObject & Sendable, each Label: LabelValue>: Sendable {
  private let handles: HandleTable

  init(
    _ labels: repeat LabelName<each Label>, atMost maximum: Int,
    _ make: @escaping @Sendable (_ dimensions: [(String, String)]) -> Handle
  ) {
    var names: [String] = []
    var closed = [LabelValues()]
    for label in repeat each labels {
      names.append(label.text)
      closed = closed.flatMap { values in
        label.closedValues.map { text in
          var values = values
          values.append(text)
          return values
        }
      }
    }
    handles = HandleTable(labels: names, maximum: maximum, make: make)
    for values in closed { _ = handles[values] }
  }

  /// The handle of these labels, made if it does not exist. It takes a short lock and a lookup, which cost as much as a
  /// hundred increments, so keep the handle of labels that are known beforehand.
  package subscript(_ values: repeat each Label) -> Handle {
    var key = LabelValues()
    for value in repeat each values { key.append(value.labelText) }
    // The table has only what the closure of `init` made.
    return unsafeDowncast(handles[key], to: Handle.self)
  }
}

/// The handles of a family, without its type parameters, which would double the time of a lookup.
private final class HandleTable: Sendable {
  private let labels: [String]
  private let maximum: Int
  private let make: @Sendable (_ dimensions: [(String, String)]) -> any AnyObject & Sendable
  private let handles = Mutex<[LabelValues: any AnyObject & Sendable]>([:])

  init(
    labels: [String], maximum: Int,
    make: @escaping @Sendable (_ dimensions: [(String, String)]) -> any AnyObject & Sendable
  ) {
    self.labels = labels
    self.maximum = maximum
    self.make = make
  }

  subscript(values: LabelValues) -> any AnyObject & Sendable {
    handles.withLock { handles in
      if let known = handles[values] { return known }
      let made = make(Array(zip(labels, values.texts)))
      if handles.count < maximum { handles[values] = made }
      return made
    }
  }
}

/// The values of at most four labels, as a key without an allocation.
private struct LabelValues: Hashable {
  private var first = ""
  private var second = ""
  private var third = ""
  private var fourth = ""
  private var count = 0

  mutating func append(_ text: String) {
    switch count {
    case 0: first = text
    case 1: second = text
    case 2: third = text
    case 3: fourth = text
    default: preconditionFailure("A metric has at most four labels.")
    }
    count += 1
  }

  /// Followed by empty texts.
  var texts: [String] { [first, second, third, fourth] }

  /// Leaves out the empty texts, for speed.
  func hash(into hasher: inout Hasher) {
    hasher.combine(first)
    if count > 1 { hasher.combine(second) }
    if count > 2 { hasher.combine(third) }
    if count > 3 { hasher.combine(fourth) }
  }
}

/// A value of a label: a text, or a case of an enumeration.
package protocol LabelValue: Sendable {
  var labelText: String { get }
  /// All values of a closed set.
  static var closedValues: [String] { get }
}

extension LabelValue {
  package static var closedValues: [String] { [] }
}

extension LabelValue where Self: RawRepresentable<String> {
  package var labelText: String { rawValue }
}

extension LabelValue where Self: RawRepresentable<String> & CaseIterable {
  package static var closedValues: [String] { allCases.map(\.rawValue) }
}

extension String: LabelValue {
  package var labelText: String { self }
}

/// The name of a label whose values have this type.
package struct LabelName<Value: LabelValue>: ExpressibleByStringLiteral, Sendable {
  let text: String

  package init(stringLiteral text: String) { self.text = text }

  var closedValues: [String] { Value.closedValues }
}
