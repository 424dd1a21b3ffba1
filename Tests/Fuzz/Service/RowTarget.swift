import Foundation
import FuzzSupport

@testable import Postgres

/// Decodes fields in PostgreSQL's binary format. The input's first byte chooses the column's type.
enum RowTarget {
  private static let types: [PostgresType] = [
    .bool, .bytea, .int8, .int2, .int4, .text, .json, .float4, .float8, .timestamptz, .numeric, .uuid, .jsonb,
    .boolArray, .byteaArray, .int4Array, .textArray, .int8Array, .float8Array, .timestamptzArray, .uuidArray,
    .jsonbArray, PostgresType(oid: 20_000),
  ]

  @Sendable static func check(_ bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let type = types[Int(choice) % types.count]
    bytes.withUnsafeBytes { buffer in
      let field = PostgresField(type: type, bytes: UnsafeRawBufferPointer(rebasing: buffer.dropFirst()))
      _ = try? Bool.decode(field)
      _ = try? Double.decode(field)
      _ = try? String.decode(field)
      _ = try? JSONText.decode(field)
      _ = try? UUID.decode(field)
      _ = try? Data.decode(field)
      _ = try? Date.decode(field)
      let number = try? Int64.decode(field)
      if let number, type == .numeric {
        claim(((try? String.decode(field)).flatMap { Int64($0) }) == number, "a number is its digits")
      }
      checkArray(field, of: Int.self)
      checkArray(field, of: Int32.self)
      checkArray(field, of: String.self)
      checkArray(field, of: String?.self)
      checkArray(field, of: Bool.self)
      checkArray(field, of: UUID.self)
      checkArray(field, of: JSONText.self)
      // Beyond these years a Double cannot represent microseconds.
      if let dates = try? [Date].decode(field), dates.allSatisfy({ abs($0.timeIntervalSince1970) < 4e9 }) {
        checkArray(field, of: Date.self)
      }
      checkArray(field, of: [UInt8].self)
      _ = try? [Double?].decode(field)
    }
  }

  /// A value that was read and written is read as the same value.
  private static func checkArray<Element>(_ field: PostgresField, of type: Element.Type)
  where Element: PostgresArrayElement & PostgresDecodableElement & Equatable {
    guard let array = try? [Element].decode(field) else { return }
    var parameters = PostgresParameters()
    array.encode(into: &parameters)
    // Without the zero byte that ends each parameter.
    let written = parameters.bytes.dropLast()
    let again = written.withUnsafeBytes {
      try? [Element].decode(PostgresField(type: [Element].postgresType, bytes: $0))
    }
    claim(again == array, "what is written is read as it was")
  }
}
