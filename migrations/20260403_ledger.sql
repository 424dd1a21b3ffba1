-- The ledger: the facts that the App Store signed. `subscriptions` has what follows from them.

-- A signed payload has a header (with three certificates, the same for months), claims and a signature. The header is kept
-- once, which makes a kept notification a quarter of the posted one.
--
-- `notifications` has no foreign key to this table. Foreign keys took a third of the time of an insert, and check the id
-- only: after a restore from a backup, another header can have that id. `NotificationRows.insert` checks id and content of
-- all headers at once, and a trigger refuses to change or delete headers.
CREATE TABLE public.jws_headers (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  header text NOT NULL,
  sha256 bytea NOT NULL UNIQUE
);
COMMENT ON TABLE public.jws_headers IS 'Headers of signed payloads (algorithm and certificates), each kept once.';
COMMENT ON COLUMN public.jws_headers.id IS 'The id by which notifications refer to the header.';
COMMENT ON COLUMN public.jws_headers.header IS 'The header segment as received, base64url.';
COMMENT ON COLUMN public.jws_headers.sha256 IS 'SHA-256 of the header segment.';

CREATE FUNCTION public.receiptd_refuse_header_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Not insufficient_privilege, which PostgreSQL reports to roles without the right.
  RAISE EXCEPTION 'headers stay as they are: notifications refer to them'
    USING ERRCODE = 'object_not_in_prerequisite_state',
    HINT = 'Without them no notification can be processed once more. To fill the table anew from a backup, '
      'ALTER TABLE jws_headers DISABLE TRIGGER receiptd_keep_headers, and ENABLE it afterwards.';
END
$$;
COMMENT ON FUNCTION public.receiptd_refuse_header_change() IS 'Refuses to change or delete headers of signed payloads, because notifications refer to them.';

CREATE TRIGGER receiptd_keep_headers
  BEFORE UPDATE OR DELETE OR TRUNCATE ON public.jws_headers FOR EACH STATEMENT
  EXECUTE FUNCTION public.receiptd_refuse_header_change();

CREATE TABLE public.notifications (
  notification_uuid uuid PRIMARY KEY,
  type text NOT NULL,
  subtype text,
  bundle_id text,
  environment text,
  original_transaction_id text,
  source text NOT NULL DEFAULT 'webhook',
  signed_at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  processed_at timestamptz,
  replayed_at timestamptz,
  outcome text NOT NULL,
  failure text,
  failure_detail text,
  envelope_header integer NOT NULL,
  envelope_claims text NOT NULL,
  envelope_signature bytea NOT NULL,
  transaction_header integer,
  transaction_claims text,
  transaction_signature bytea,
  renewal_header integer,
  renewal_claims text,
  renewal_signature bytea
);
CREATE INDEX notifications_original_transaction_id_idx
  ON public.notifications (original_transaction_id, signed_at)
  WHERE original_transaction_id IS NOT NULL;
CREATE INDEX notifications_received_at_idx ON public.notifications (received_at);
CREATE INDEX notifications_unprocessed_idx
  ON public.notifications (received_at) WHERE processed_at IS NULL;
-- A starting server reads through these two: notifications of known apps that wait, and for each configured app those that
-- came before it was known.
CREATE INDEX notifications_waiting_idx ON public.notifications (received_at, notification_uuid)
  WHERE processed_at IS NULL AND outcome <> 'unknown_app';
CREATE INDEX notifications_unknown_app_idx
  ON public.notifications (bundle_id, received_at, notification_uuid)
  WHERE processed_at IS NULL AND outcome = 'unknown_app';
CREATE INDEX notifications_renewal_status_idx ON public.notifications (signed_at)
  WHERE type = 'DID_CHANGE_RENEWAL_STATUS';
COMMENT ON TABLE public.notifications IS 'Every App Store Server Notification with Apple''s signature, once each, whether it could be processed or not. Of a notification about an erased customer only the impersonal claims are kept, so it cannot be replayed.';
COMMENT ON COLUMN public.notifications.notification_uuid IS 'Apple''s notificationUUID: the same on every retry.';
COMMENT ON COLUMN public.notifications.type IS 'Apple''s notificationType.';
COMMENT ON COLUMN public.notifications.subtype IS 'Apple''s subtype.';
COMMENT ON COLUMN public.notifications.bundle_id IS 'The app.';
COMMENT ON COLUMN public.notifications.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.notifications.original_transaction_id IS 'The subscription that the notification is about. NULL: it is about none.';
COMMENT ON COLUMN public.notifications.source IS 'webhook: the App Store posted it. history: it never arrived, and receiptd read it from the App Store''s notification history.';
COMMENT ON COLUMN public.notifications.signed_at IS 'Apple''s signedDate.';
COMMENT ON COLUMN public.notifications.received_at IS 'When receiptd first received the notification.';
COMMENT ON COLUMN public.notifications.processed_at IS 'When the notification took effect. NULL: it waits for a replay.';
COMMENT ON COLUMN public.notifications.replayed_at IS 'When receiptd last processed the notification again.';
COMMENT ON COLUMN public.notifications.outcome IS 'The result: applied (a fact was new), unchanged (a later fact was known), recorded (it carries no facts). Or the reason why it waits: unknown_app (deleted 30 days after receipt, unless the app is configured by then), unknown_environment, unknown_type, unknown_product, failed. Or erased: it waited when its customer was erased.';
COMMENT ON COLUMN public.notifications.failure IS 'The fault of a notification that Apple signed but that cannot be read, or whose transaction or renewal info fails verification: untrusted_root, signature_invalid, certificate_not_valid_at_signed_date, malformed_payload, inner_mismatch or another. NULL: no such fault.';
COMMENT ON COLUMN public.notifications.failure_detail IS 'The part that failed and the fault, in words.';
COMMENT ON COLUMN public.notifications.envelope_header IS 'For a replay: the header of the notification itself.';
COMMENT ON COLUMN public.notifications.envelope_claims IS 'For a replay: the claims of the notification, as signed. U+0001 T U+0001 and U+0001 R U+0001 stand for the signed transaction and renewal info inside it, which the following columns keep.';
COMMENT ON COLUMN public.notifications.envelope_signature IS 'For a replay: the signature of the notification itself.';
COMMENT ON COLUMN public.notifications.transaction_header IS 'For a replay: the header of the transaction inside it.';
COMMENT ON COLUMN public.notifications.transaction_claims IS 'The claims of the transaction inside it, as signed.';
COMMENT ON COLUMN public.notifications.transaction_signature IS 'For a replay: the signature of the transaction inside it.';
COMMENT ON COLUMN public.notifications.renewal_header IS 'For a replay: the header of the renewal info inside it.';
COMMENT ON COLUMN public.notifications.renewal_claims IS 'The claims of the renewal info inside it, as signed.';
COMMENT ON COLUMN public.notifications.renewal_signature IS 'For a replay: the signature of the renewal info inside it.';

CREATE TABLE public.transactions (
  transaction_id text PRIMARY KEY,
  original_transaction_id text NOT NULL,
  bundle_id text NOT NULL,
  environment text NOT NULL,
  product_id text NOT NULL,
  kind text NOT NULL,
  ownership text NOT NULL,
  purchase_date timestamptz NOT NULL,
  original_purchase_date timestamptz,
  expiry_date timestamptz,
  revoked_at timestamptz,
  is_upgraded boolean NOT NULL,
  app_account_token uuid,
  app_account_token_signed_at timestamptz,
  app_transaction_id text,
  price_milliunits bigint,
  currency text,
  signed_at timestamptz NOT NULL,
  other_claims jsonb,
  first_seen_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX transactions_original_transaction_id_idx
  ON public.transactions (original_transaction_id, purchase_date);
-- The KPIs of a day read these.
CREATE INDEX transactions_purchase_date_idx ON public.transactions (purchase_date);
CREATE INDEX transactions_expiry_date_idx ON public.transactions (expiry_date);
CREATE INDEX transactions_revoked_at_idx ON public.transactions (revoked_at) WHERE revoked_at IS NOT NULL;
COMMENT ON TABLE public.transactions IS 'Every signed transaction seen, one row per transactionId, with the facts that Apple signed last.';
COMMENT ON COLUMN public.transactions.transaction_id IS 'Apple''s transactionId: one purchase or renewal.';
COMMENT ON COLUMN public.transactions.original_transaction_id IS 'Apple''s originalTransactionId: the subscription.';
COMMENT ON COLUMN public.transactions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.transactions.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.transactions.product_id IS 'Apple''s productId at the time of the purchase.';
COMMENT ON COLUMN public.transactions.kind IS 'Apple''s type.';
COMMENT ON COLUMN public.transactions.ownership IS 'Apple''s inAppOwnershipType: PURCHASED or FAMILY_SHARED.';
COMMENT ON COLUMN public.transactions.purchase_date IS 'When the customer bought this period.';
COMMENT ON COLUMN public.transactions.original_purchase_date IS 'When the customer bought the first period.';
COMMENT ON COLUMN public.transactions.expiry_date IS 'The end of this period. NULL: it never expires.';
COMMENT ON COLUMN public.transactions.revoked_at IS 'When Apple refunded or revoked the transaction. NULL: it did neither.';
COMMENT ON COLUMN public.transactions.is_upgraded IS 'Whether a better product replaced this one before the period ended.';
COMMENT ON COLUMN public.transactions.app_account_token IS 'The account that the app named: the latest appAccountToken that Apple signed for the transaction.';
COMMENT ON COLUMN public.transactions.app_account_token_signed_at IS 'When Apple signed app_account_token, if a later signature carries no token. NULL: at signed_at.';
COMMENT ON COLUMN public.transactions.app_transaction_id IS 'Apple''s appTransactionId: identifies an Apple Account and an app.';
COMMENT ON COLUMN public.transactions.price_milliunits IS 'The configured price in thousandths of the currency''s unit.';
COMMENT ON COLUMN public.transactions.currency IS 'ISO 4217.';
COMMENT ON COLUMN public.transactions.signed_at IS 'Apple''s signedDate of these facts.';
COMMENT ON COLUMN public.transactions.other_claims IS 'Claims that Apple signed and that have no column here, under Apple''s names.';
COMMENT ON COLUMN public.transactions.first_seen_at IS 'When receiptd first saw the transaction.';
COMMENT ON COLUMN public.transactions.updated_at IS 'When receiptd last stored newer facts about the transaction.';

CREATE TABLE public.renewals (
  original_transaction_id text PRIMARY KEY,
  environment text NOT NULL,
  product_id text NOT NULL,
  renews_as text,
  will_auto_renew boolean,
  is_in_billing_retry boolean NOT NULL,
  grace_expires_at timestamptz,
  expiration_intent integer,
  renewal_date timestamptz,
  signed_at timestamptz NOT NULL,
  other_claims jsonb,
  updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE public.renewals IS 'The latest signed renewal info of each subscription: how the App Store intends to renew it.';
COMMENT ON COLUMN public.renewals.original_transaction_id IS 'Apple''s originalTransactionId: the subscription.';
COMMENT ON COLUMN public.renewals.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.renewals.product_id IS 'The product of the current period.';
COMMENT ON COLUMN public.renewals.renews_as IS 'Apple''s autoRenewProductId: the product of the next period.';
COMMENT ON COLUMN public.renewals.will_auto_renew IS 'Apple''s autoRenewStatus.';
COMMENT ON COLUMN public.renewals.is_in_billing_retry IS 'Whether Apple retries a charge that failed.';
COMMENT ON COLUMN public.renewals.grace_expires_at IS 'Apple''s gracePeriodExpiresDate.';
COMMENT ON COLUMN public.renewals.expiration_intent IS 'Why the subscription ended: 1 cancelled, 2 billing, 3 price increase, 4 not for sale, 5 other.';
COMMENT ON COLUMN public.renewals.renewal_date IS 'When the next period begins.';
COMMENT ON COLUMN public.renewals.signed_at IS 'Apple''s signedDate.';
COMMENT ON COLUMN public.renewals.other_claims IS 'Claims that Apple signed and that have no column here, under Apple''s names.';
COMMENT ON COLUMN public.renewals.updated_at IS 'When receiptd last stored newer renewal info.';
