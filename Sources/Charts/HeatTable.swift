/// Cohorts by age as an HTML table whose cells have a class for their value: `h0` (0) to `h10` (1).
package struct HeatTable: Sendable {
  /// One cohort.
  package struct Row: Sendable {
    package var name: String
    /// How many the cohort has.
    package var size: String
    /// One part of one for each age; `nil` where the cohort is too young.
    package var cells: [Cell?]

    package init(name: String, size: String, cells: [Cell?]) {
      self.name = name
      self.size = size
      self.cells = cells
    }
  }

  /// The part of a cohort at an age.
  package struct Cell: Sendable {
    package var value: Double
    package var tooltip: String
    /// Whether some of the cohort have not reached the age, so that the value will change.
    package var isPartial: Bool

    package init(value: Double, tooltip: String, isPartial: Bool) {
      self.value = value
      self.tooltip = tooltip
      self.isPartial = isPartial
    }
  }

  package var title: String
  /// The names of the first two columns.
  package var heads: (name: String, size: String)
  package var ages: [String]
  package var rows: [Row]

  package init(title: String, heads: (name: String, size: String), ages: [String], rows: [Row]) {
    self.title = title
    self.heads = heads
    self.ages = ages
    self.rows = rows
  }

  package var html: String {
    var text = SVGText()
    text.element("table", ["class": "heat"]) { text in
      text.element("caption", text: title)
      text.element("thead", [:]) { text in
        text.element("tr", [:]) { text in
          text.element("th", ["scope": "col"], text: heads.name)
          text.element("th", ["scope": "col"], text: heads.size)
          for age in ages { text.element("th", ["scope": "col"], text: age) }
        }
      }
      text.element("tbody", [:]) { text in
        for row in rows {
          text.element("tr", [:]) { text in
            text.element("th", ["scope": "row"], text: row.name)
            text.element("td", text: row.size)
            for index in ages.indices { draw(index < row.cells.count ? row.cells[index] : nil, &text) }
          }
        }
      }
    }
    return text.text
  }

  private func draw(_ cell: Cell?, _ text: inout SVGText) {
    guard let cell, cell.value.isFinite else {
      text.element("td", text: "")
      return
    }
    let value = min(max(cell.value, 0), 1)
    let shade = Int((value * 10).rounded(.down))
    text.element(
      "td",
      [
        "class": "h\(shade)\(cell.isPartial ? " partial" : "")", "title": cell.tooltip,
        "data-values": "\(cell.value)",
      ], text: ChartNumber.grouped(value * 100, digits: 0))
  }
}
