/// A legacy app receipt, written byte by byte without a library.
struct ReceiptFile {
  struct Purchase {
    var productID = "com.example.monthly"
    var transactionID: String? = "2000000000000001"
    var originalTransactionID: String? = "1000000000000001"
    var purchaseDate = "2025-01-01T00:00:00Z"
    var expiresDate = ""
    var cancellationDate = ""

    var attributes: [UInt8] {
      ASN1.set(
        [(1701, ASN1.integer(1)), (1702, ASN1.utf8(productID))]
          + (transactionID.map { [(1703, ASN1.utf8($0))] } ?? [])
          + (originalTransactionID.map { [(1705, ASN1.utf8($0))] } ?? [])
          + [
            (1704, ASN1.ia5(purchaseDate)), (1706, ASN1.ia5(purchaseDate)), (1708, ASN1.ia5(expiresDate)),
            (1712, ASN1.ia5(cancellationDate)), (1719, ASN1.integer(0)),
          ])
    }
  }

  /// The encoding of the file.
  enum Form: CaseIterable {
    /// Definite lengths everywhere, as in recent receipts.
    case der
    /// Indefinite lengths and the content in parts, as in older ones.
    case ber
    /// The content once more in an OCTET STRING, as StoreKit testing in Xcode does it.
    case nested
  }

  var bundleID: String? = "com.example.app"
  var purchases: [Purchase] = []

  var payload: [UInt8] {
    ASN1.set(
      [(0, ASN1.utf8("Production")), (3, ASN1.utf8("1.0")), (4, [1, 2, 3]), (5, [0xFF, 0x00])]
        + (bundleID.map { [(2, ASN1.utf8($0))] } ?? []) + purchases.map { (17, $0.attributes) })
  }

  func encoded(_ form: Form = .der) -> [UInt8] {
    let isIndefinite = form == .ber
    let octets =
      switch form {
      case .der: ASN1.element(0x04, payload)
      case .nested: ASN1.element(0x04, ASN1.element(0x04, payload))
      case .ber:
        ASN1.element(
          0x24,
          ASN1.element(0x04, Array(payload.prefix(70)))
            + ASN1.element(0x24, ASN1.element(0x04, Array(payload.dropFirst(70))), isIndefinite: true),
          isIndefinite: true)
      }
    let content = ASN1.element(
      0x30,
      ASN1.oid(data) + ASN1.element(0xA0, octets, isIndefinite: isIndefinite), isIndefinite: isIndefinite)
    let signedData = ASN1.element(
      0x30, ASN1.integer(1) + ASN1.element(0x31, []) + content + ASN1.element(0x31, []),
      isIndefinite: isIndefinite)
    return ASN1.element(
      0x30, ASN1.oid(self.signedData) + ASN1.element(0xA0, signedData, isIndefinite: isIndefinite),
      isIndefinite: isIndefinite)
  }

  /// The contents of the identifiers of RFC 5652, sections 4 and 5.1.
  private let data: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01]
  private let signedData: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x02]

  enum ASN1 {
    static func element(_ tag: UInt8, _ content: [UInt8], isIndefinite: Bool = false) -> [UInt8] {
      if isIndefinite { return [tag, 0x80] + content + [0, 0] }
      switch content.count {
      case ..<0x80: return [tag, UInt8(content.count)] + content
      default:
        return [tag, 0x83] + [16, 8, 0].map { UInt8(truncatingIfNeeded: content.count >> $0) } + content
      }
    }

    static func integer(_ value: Int) -> [UInt8] {
      element(0x02, [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) })
    }

    static func utf8(_ text: String) -> [UInt8] { element(0x0C, Array(text.utf8)) }
    static func ia5(_ text: String) -> [UInt8] { element(0x16, Array(text.utf8)) }
    static func oid(_ content: [UInt8]) -> [UInt8] { element(0x06, content) }

    static func set(_ attributes: [(Int, [UInt8])]) -> [UInt8] {
      element(
        0x31, attributes.flatMap { element(0x30, integer($0.0) + integer(1) + element(0x04, $0.1)) })
    }
  }
}
