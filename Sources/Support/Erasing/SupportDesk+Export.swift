import AppStore
import Customers
import Foundation
import JSON
import Postgres
import Subscriptions
import Work

extension SupportDesk {
  /// All that is known of a customer: the rows of all tables, without what identifies other customers.
  /// - Parameters:
  ///   - id: a user's UUID or a device's id.
  ///   - bundleID: the app; needed if the id is a customer of several apps.
  ///   - maximumBytes: the most bytes of all rows as JSON: the server holds all of them.
  /// - Throws: ``SupportRefusal``; errors of the database.
  package func exportCustomer(
    _ id: String, bundleID: String? = nil, maximumBytes: Int = CustomerExport.maximumBytes
  ) async throws -> CustomerExport {
    let known = try await knownCustomer(id, of: bundleID)
    var export = CustomerExport(
      id: known.id, kinds: [known.customer.kindWord], bundleIDs: known.bundleIDs, exportedAt: clock.now())
    export.logHashes = try await logHashes(of: known.id).map(\.hash)
    // Rows are decoded after the transaction: meanwhile its session is idle, which PostgreSQL allows for a short time
    // only.
    let tables = try await pool.withTransaction { connection in
      let customer = try await found(known, connection)
      var tables: [(name: String, description: Rows, rows: Rows, count: Int)] = []
      var bytesLeft = maximumBytes
      for table in CustomerTable.all {
        guard let rows = table.export?(customer) else { continue }
        let answers = try await connection.pipeline(
          [
            "SELECT set_config('timezone', 'UTC', true)",
            "SELECT obj_description(to_regclass(\(table.name)::text)) AS description",
            CustomerExport.page(of: rows, upTo: bytesLeft),
          ], timeout: ErasedCustomer.timeout)
        let ends = try answers[2].map { try $0.decode("bytes", as: Int.self) }
        let kept = ends.prefix(CustomerExport.maximumRows).prefix { $0 <= bytesLeft }
        bytesLeft -= kept.last ?? 0
        tables.append((table.name, answers[1], answers[2], kept.count))
      }
      return tables
    }
    for table in tables {
      var rows: [JSONValue] = []
      for row in table.rows.prefix(table.count) {
        rows.append(
          try JSONReader.read(
            JSONValue.self, from: Array(row.decode("row", as: JSONText.self).text.utf8), maximumDepth: 512
          ).withoutSignatures)
        // Others are answered meanwhile.
        if rows.count.isMultiple(of: 64) { await Task.yield() }
      }
      try export.add(
        rows, to: table.name, hasMore: table.rows.count > table.count,
        description: table.description[0].decode("description", as: String?.self) ?? "")
    }
    return export
  }
}

extension JSONValue {
  /// The value with the claims of each JWS in place of the JWS: its reader could act as the customer. Apple's envelope
  /// of a notification that failed has some, and clients may send one in any text.
  var withoutSignatures: JSONValue {
    switch self {
    case .string(let text): text.withoutSignatures
    case .array(let values): .array(values.map(\.withoutSignatures))
    case .object(let members):
      .object(
        Dictionary(
          members.map { (name, value) -> (String, JSONValue) in
            guard case .string(let name) = name.withoutSignatures else { return ("(signed data)", .null) }
            return (name, value.withoutSignatures)
          }, uniquingKeysWith: { first, _ in first }))
    case .null, .bool, .integer, .number: self
    }
  }

  fileprivate var encoded: String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
    return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "(signed data)"
  }
}

extension String {
  /// The most levels of JSON in a text: as many as a request may have.
  private static let maximumDepth = 32
  /// The shortest text that counts as a signature: base64url of 256 bits.
  private static let shortestSignature = 43

  /// The text without signatures. A text that is a JWS becomes its claims; JSON stays JSON.
  fileprivate var withoutSignatures: JSONValue {
    let signed = compactJWS
    // JSON may have any character of a JWS as an escape.
    guard !signed.isEmpty || contains("\\u") else { return .string(self) }
    if let first = first(where: { !$0.isWhitespace }), "{[\"".contains(first) {
      do {
        let value = try JSONReader.read(JSONValue.self, from: Array(utf8), maximumDepth: Self.maximumDepth)
        let cut = value.withoutSignatures
        // Of two members with one name only the first is in the value.
        return .string(cut == value && signed.isEmpty ? self : cut.encoded)
      } catch {
        if error.reason == .tooDeep { return .string("(signed data)") }
      }
    }
    if signed == [startIndex..<endIndex] { return claims }
    var text = ""
    var end = startIndex
    for range in signed {
      text += String(self[end..<range.lowerBound]) + String(self[range]).claims.encoded
      end = range.upperBound
    }
    return .string(text + String(self[end...]))
  }

  /// The parts of the text that may be a JWS in compact serialization.
  private var compactJWS: [Range<Index>] {
    func isPart(_ byte: UInt8) -> Bool {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
        true
      default: false
      }
    }
    let parts: [Substring.UTF8View] = utf8.split { !isPart($0) }
    return parts.filter { part in
      let segments: [Substring.UTF8View] = part.split(omittingEmptySubsequences: false) {
        $0 == UInt8(ascii: ".")
      }
      return segments.dropFirst(2).contains { $0.count >= Self.shortestSignature }
    }.map { $0.startIndex..<$0.endIndex }
  }

  /// The claims of a text that may be a JWS.
  private var claims: JSONValue {
    let claims = split(separator: ".").dropFirst().lazy.compactMap { segment in
      Base64.decode(String(segment), .url).flatMap {
        try? JSONReader.read(JSONValue.self, from: $0, maximumDepth: Self.maximumDepth)
      }
    }
    return claims.first?.withoutSignatures ?? .string("(signed data)")
  }
}

/// All that is known of a customer, as `receiptd export-customer` prints it.
package struct CustomerExport: Encodable, Sendable {
  /// The customer's id.
  package let id: String
  /// `user` or `device`.
  package let kinds: [String]
  /// The apps whose rows these are.
  package let bundleIDs: [String]
  /// The server's clock.
  package let exportedAt: Date
  /// The customer in the log's field `customer`.
  var logHashes: [String] = []
  /// The tables with rows of the customer.
  package private(set) var tables: [Table] = []

  /// The most rows of one table. A flood of requests alone reaches it: the limits of 20261120_limits.sql keep the
  /// events of an app below it.
  static let maximumRows = 200_000

  /// The most bytes of the rows of all tables, as JSON.
  package static let maximumBytes = 12 << 20

  /// The first rows of a table, with the bytes up to the end of each (`row`, `bytes`): those of the export, and the one
  /// after them. No array of all rows: PostgreSQL limits its size.
  fileprivate static func page(of rows: Query, upTo bytesLeft: Int) -> Query {
    """
    SELECT counted.row, counted.bytes FROM (
      SELECT first.row, octet_length(first.row::text) AS own,
        sum(octet_length(first.row::text)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT exported.row FROM (\(rows)) AS exported LIMIT \(maximumRows + 1)) AS first) AS counted
    WHERE counted.bytes - counted.own <= \(bytesLeft)::bigint
    """
  }

  /// A table with its rows, under the names of the columns.
  package struct Table: Encodable, Sendable {
    package var table: String
    /// What the table is for.
    package var description: String
    package var rows: [JSONValue]
    /// Whether there are more rows than ``CustomerExport/maximumRows``, or than fit into
    /// ``CustomerExport/maximumBytes``.
    package var hasMore: Bool
  }

  init(id: String, kinds: [String], bundleIDs: [String], exportedAt: Date) {
    self.id = id
    self.kinds = kinds
    self.bundleIDs = bundleIDs
    self.exportedAt = exportedAt
  }

  fileprivate mutating func add(_ rows: [JSONValue], to table: String, hasMore: Bool, description: String) {
    guard !rows.isEmpty || hasMore else { return }
    tables.append(Table(table: table, description: description, rows: rows, hasMore: hasMore))
  }
}

extension SupportDesk {
  /// The hashes of a customer in the log's field `customer`: of the id as it is, which devices have, and of a user's
  /// UUID in lower case.
  /// - Throws: errors of the database.
  package func logHashes(of id: String) async throws -> [(id: String, hash: String)] {
    let key = LogKey()
    try await key.load(from: pool)
    let user = UUID(uuidString: id).map { $0.uuidString.lowercased() }
    return Set([id, user ?? id]).sorted().compactMap { id in key.hash(of: id).map { (id, $0) } }
  }
}
