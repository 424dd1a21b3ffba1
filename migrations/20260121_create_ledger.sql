-- The ledger: what the App Store signed, and what it means.
--
-- An app may have a table `subscriptions` with these names already, so columns are added one by one.

CREATE TABLE IF NOT EXISTS public.subscriptions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  device_id text,
  original_transaction_id text NOT NULL,
  transaction_id text,
  product_id text,
  tier text,
  status text,
  purchase_date timestamptz,
  expiry_date timestamptz,
  auto_renew_enabled boolean,
  last_validated_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE public.subscriptions
  ADD COLUMN IF NOT EXISTS bundle_id text,
  ADD COLUMN IF NOT EXISTS environment text,
  ADD COLUMN IF NOT EXISTS user_id uuid,
  ADD COLUMN IF NOT EXISTS store_status text,
  ADD COLUMN IF NOT EXISTS ownership text,
  ADD COLUMN IF NOT EXISTS grace_expires_at timestamptz,
  ADD COLUMN IF NOT EXISTS revoked_at timestamptz,
  ADD COLUMN IF NOT EXISTS price_milliunits bigint,
  ADD COLUMN IF NOT EXISTS currency text,
  ADD COLUMN IF NOT EXISTS signed_at timestamptz,
  ADD COLUMN IF NOT EXISTS kind text,
  ADD COLUMN IF NOT EXISTS renews_as text,
  ADD COLUMN IF NOT EXISTS owned_because text,
  ADD COLUMN IF NOT EXISTS app_account_token uuid,
  ADD COLUMN IF NOT EXISTS app_transaction_id text,
  ADD COLUMN IF NOT EXISTS is_counted boolean,
  ADD COLUMN IF NOT EXISTS phase_starts timestamptz[],
  ADD COLUMN IF NOT EXISTS phase_statuses text[],
  ADD COLUMN IF NOT EXISTS phase_store_statuses text[],
  ADD COLUMN IF NOT EXISTS next_change_at timestamptz;

CREATE UNIQUE INDEX IF NOT EXISTS subscriptions_original_transaction_id_key
  ON public.subscriptions (original_transaction_id);
CREATE INDEX IF NOT EXISTS subscriptions_user_id_idx
  ON public.subscriptions (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS subscriptions_device_id_idx
  ON public.subscriptions (device_id) WHERE device_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS subscriptions_expiry_date_idx
  ON public.subscriptions (expiry_date) WHERE expiry_date IS NOT NULL;
CREATE INDEX IF NOT EXISTS subscriptions_next_change_at_idx
  ON public.subscriptions (next_change_at) WHERE next_change_at IS NOT NULL;

COMMENT ON TABLE public.subscriptions IS
  'One row per subscription or lifetime purchase (originalTransactionId): what the signed facts in transactions and renewals mean. Never edited by hand: the next fact writes it anew.';
COMMENT ON COLUMN public.subscriptions.id IS 'The row''s own identity.';
COMMENT ON COLUMN public.subscriptions.device_id IS 'The device it belongs to, in apps whose customers are devices.';
COMMENT ON COLUMN public.subscriptions.original_transaction_id IS 'Apple''s originalTransactionId: the same for every period.';
COMMENT ON COLUMN public.subscriptions.transaction_id IS 'Apple''s transactionId of the latest purchase.';
COMMENT ON COLUMN public.subscriptions.product_id IS 'The product of the latest purchase, by the catalog''s name (Apple''s where the catalog does not know it).';
COMMENT ON COLUMN public.subscriptions.tier IS 'The tier that the product opens. NULL: the catalog does not know the product, so it opens nothing.';
COMMENT ON COLUMN public.subscriptions.status IS 'active, grace, expired or cancelled, as of updated_at; support_subscriptions shows it as of now.';
COMMENT ON COLUMN public.subscriptions.purchase_date IS 'When the latest period was bought.';
COMMENT ON COLUMN public.subscriptions.expiry_date IS 'The end of the paid time. NULL: it never expires.';
COMMENT ON COLUMN public.subscriptions.auto_renew_enabled IS 'Whether the App Store intends to charge again.';
COMMENT ON COLUMN public.subscriptions.last_validated_at IS 'When a client last proved it.';
COMMENT ON COLUMN public.subscriptions.created_at IS 'When it was first seen here.';
COMMENT ON COLUMN public.subscriptions.updated_at IS 'When this row was last written.';
COMMENT ON COLUMN public.subscriptions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.subscriptions.environment IS 'Production, or Sandbox for testers.';
COMMENT ON COLUMN public.subscriptions.user_id IS 'The user it belongs to, in apps whose customers are users. NULL: nobody has claimed it.';
COMMENT ON COLUMN public.subscriptions.store_status IS 'active, billingRetry, billingGrace, expired or revoked: what the App Store would say, as of updated_at.';
COMMENT ON COLUMN public.subscriptions.ownership IS 'PURCHASED, or FAMILY_SHARED for a family member.';
COMMENT ON COLUMN public.subscriptions.grace_expires_at IS 'The end of Apple''s billing grace for the latest period.';
COMMENT ON COLUMN public.subscriptions.revoked_at IS 'When the latest purchase was refunded or revoked.';
COMMENT ON COLUMN public.subscriptions.price_milliunits IS 'The configured price in thousandths of the currency''s unit (4.99 is 4990); not what was earned.';
COMMENT ON COLUMN public.subscriptions.currency IS 'ISO 4217.';
COMMENT ON COLUMN public.subscriptions.signed_at IS 'The latest signedDate among the facts that this row follows.';
COMMENT ON COLUMN public.subscriptions.kind IS 'Apple''s type: Auto-Renewable Subscription, Non-Consumable, ...';
COMMENT ON COLUMN public.subscriptions.renews_as IS 'The product of the next period. NULL: none will follow.';
COMMENT ON COLUMN public.subscriptions.owned_because IS 'What decided the owner: app_account_token, first_claim, transfer or support.';
COMMENT ON COLUMN public.subscriptions.app_account_token IS 'The last appAccountToken that decided the owner.';
COMMENT ON COLUMN public.subscriptions.app_transaction_id IS 'Apple''s appTransactionId: the same Apple Account and app.';
COMMENT ON COLUMN public.subscriptions.is_counted IS 'Whether it opens anything at all: the catalog knows its product, and a sandbox purchase is a tester''s.';
COMMENT ON COLUMN public.subscriptions.phase_starts IS 'When each phase of its life begins (the first is NULL: always been). A status at an instant is that of the last phase begun.';
COMMENT ON COLUMN public.subscriptions.phase_statuses IS 'The status in each phase.';
COMMENT ON COLUMN public.subscriptions.phase_store_statuses IS 'The store status in each phase.';
COMMENT ON COLUMN public.subscriptions.next_change_at IS 'When the status next changes by itself.';

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

COMMENT ON TABLE public.transactions IS
  'Every signed transaction seen, one row per transactionId: Apple''s latest word on it.';
COMMENT ON COLUMN public.transactions.transaction_id IS 'Apple''s transactionId: one purchase or renewal.';
COMMENT ON COLUMN public.transactions.original_transaction_id IS 'Apple''s originalTransactionId: the subscription.';
COMMENT ON COLUMN public.transactions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.transactions.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.transactions.product_id IS 'Apple''s productId, as it was sold.';
COMMENT ON COLUMN public.transactions.kind IS 'Apple''s type.';
COMMENT ON COLUMN public.transactions.ownership IS 'Apple''s inAppOwnershipType: PURCHASED or FAMILY_SHARED.';
COMMENT ON COLUMN public.transactions.purchase_date IS 'When this period was bought.';
COMMENT ON COLUMN public.transactions.original_purchase_date IS 'When the first period was bought.';
COMMENT ON COLUMN public.transactions.expiry_date IS 'The end of this period. NULL: it never expires.';
COMMENT ON COLUMN public.transactions.revoked_at IS 'When Apple refunded or revoked it. NULL: it stands.';
COMMENT ON COLUMN public.transactions.is_upgraded IS 'Whether a better product replaced it before its end.';
COMMENT ON COLUMN public.transactions.app_account_token IS 'The account that the app named at the purchase.';
COMMENT ON COLUMN public.transactions.app_transaction_id IS 'Apple''s appTransactionId: the same Apple Account and app.';
COMMENT ON COLUMN public.transactions.price_milliunits IS 'The configured price in thousandths of the currency''s unit.';
COMMENT ON COLUMN public.transactions.currency IS 'ISO 4217.';
COMMENT ON COLUMN public.transactions.signed_at IS 'Apple''s signedDate of this word on it.';
COMMENT ON COLUMN public.transactions.other_claims IS 'What Apple signed beyond these columns, under Apple''s names.';
COMMENT ON COLUMN public.transactions.first_seen_at IS 'When it was first seen here.';
COMMENT ON COLUMN public.transactions.updated_at IS 'When a later word on it was last taken in.';

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

COMMENT ON TABLE public.renewals IS
  'The latest signed renewal info of each subscription: what the App Store intends.';
COMMENT ON COLUMN public.renewals.original_transaction_id IS 'Apple''s originalTransactionId: the subscription.';
COMMENT ON COLUMN public.renewals.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.renewals.product_id IS 'The product of the period that runs.';
COMMENT ON COLUMN public.renewals.renews_as IS 'Apple''s autoRenewProductId: the product of the next period.';
COMMENT ON COLUMN public.renewals.will_auto_renew IS 'Apple''s autoRenewStatus.';
COMMENT ON COLUMN public.renewals.is_in_billing_retry IS 'Whether Apple is trying to charge after a failure.';
COMMENT ON COLUMN public.renewals.grace_expires_at IS 'Apple''s gracePeriodExpiresDate.';
COMMENT ON COLUMN public.renewals.expiration_intent IS 'Why it ended: 1 cancelled, 2 billing, 3 price increase, 4 not for sale, 5 other.';
COMMENT ON COLUMN public.renewals.renewal_date IS 'When the next period begins.';
COMMENT ON COLUMN public.renewals.signed_at IS 'Apple''s signedDate.';
COMMENT ON COLUMN public.renewals.other_claims IS 'What Apple signed beyond these columns, under Apple''s names.';
COMMENT ON COLUMN public.renewals.updated_at IS 'When a later word was last taken in.';

-- A signed payload is a header (with three certificates, the same for months), claims and a
-- signature. The header is kept once; that makes a kept notification a quarter of what was posted.
CREATE TABLE public.jws_headers (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  header text NOT NULL,
  sha256 bytea NOT NULL UNIQUE
);
COMMENT ON TABLE public.jws_headers IS 'Headers of signed payloads (algorithm and certificates), each kept once.';
COMMENT ON COLUMN public.jws_headers.id IS 'What notifications refer to.';
COMMENT ON COLUMN public.jws_headers.header IS 'The header segment as it came, base64url.';
COMMENT ON COLUMN public.jws_headers.sha256 IS 'SHA-256 of the header segment.';

CREATE TABLE public.notifications (
  notification_uuid uuid PRIMARY KEY,
  type text NOT NULL,
  subtype text,
  bundle_id text,
  environment text,
  original_transaction_id text,
  signed_at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  processed_at timestamptz,
  outcome text NOT NULL,
  envelope_header integer NOT NULL REFERENCES public.jws_headers (id),
  envelope_claims text NOT NULL,
  envelope_signature bytea NOT NULL,
  transaction_header integer REFERENCES public.jws_headers (id),
  transaction_claims text,
  transaction_signature bytea,
  renewal_header integer REFERENCES public.jws_headers (id),
  renewal_claims text,
  renewal_signature bytea
);
CREATE INDEX notifications_original_transaction_id_idx
  ON public.notifications (original_transaction_id, signed_at)
  WHERE original_transaction_id IS NOT NULL;
CREATE INDEX notifications_received_at_idx ON public.notifications (received_at);
CREATE INDEX notifications_unprocessed_idx
  ON public.notifications (received_at) WHERE processed_at IS NULL;

COMMENT ON TABLE public.notifications IS
  'Every App Store Server Notification that carried Apple''s signature, once each, whether it could be processed or not.';
COMMENT ON COLUMN public.notifications.notification_uuid IS 'Apple''s notificationUUID: the same on every retry.';
COMMENT ON COLUMN public.notifications.type IS 'Apple''s notificationType.';
COMMENT ON COLUMN public.notifications.subtype IS 'Apple''s subtype.';
COMMENT ON COLUMN public.notifications.bundle_id IS 'The app.';
COMMENT ON COLUMN public.notifications.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.notifications.original_transaction_id IS 'The subscription that it is about, if it is about one.';
COMMENT ON COLUMN public.notifications.signed_at IS 'Apple''s signedDate.';
COMMENT ON COLUMN public.notifications.received_at IS 'When it was received here first.';
COMMENT ON COLUMN public.notifications.processed_at IS 'When it took effect. NULL: kept, waits for a replay.';
COMMENT ON COLUMN public.notifications.outcome IS
  'What came of it: applied (a fact was news), unchanged (older than what is known), recorded (carries no facts), or why it waits: unknown_app, unknown_environment, unknown_type, unknown_product, failed.';
COMMENT ON COLUMN public.notifications.envelope_header IS 'For a replay: the header of the notification itself.';
COMMENT ON COLUMN public.notifications.envelope_claims IS 'For a replay: what the notification says, as signed. U+0001 T U+0001 and U+0001 R U+0001 stand for the signed transaction and renewal info inside it, which are kept in the columns that follow.';
COMMENT ON COLUMN public.notifications.envelope_signature IS 'For a replay: the signature of the notification itself.';
COMMENT ON COLUMN public.notifications.transaction_header IS 'For a replay: the header of the transaction inside it.';
COMMENT ON COLUMN public.notifications.transaction_claims IS 'What the transaction inside it says, as signed.';
COMMENT ON COLUMN public.notifications.transaction_signature IS 'For a replay: the signature of the transaction inside it.';
COMMENT ON COLUMN public.notifications.renewal_header IS 'For a replay: the header of the renewal info inside it.';
COMMENT ON COLUMN public.notifications.renewal_claims IS 'What the renewal info inside it says, as signed.';
COMMENT ON COLUMN public.notifications.renewal_signature IS 'For a replay: the signature of the renewal info inside it.';
