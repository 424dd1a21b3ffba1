-- support_customers: a customer with access that never ends has no access_until, whatever ends beside it; and a purchase whose
-- grace has no end yet, because free access is on, is no access that never ends.
CREATE OR REPLACE VIEW public.support_customers AS
SELECT
  held.bundle_id,
  held.user_id,
  held.device_id,
  held.customer,
  coalesce(bool_or(held.has_access) FILTER (WHERE held.source <> 'trial'), false)
    -- A customer with a purchase has no claim to the rest of a trial.
    OR coalesce(bool_or(held.has_access) FILTER (WHERE held.source = 'trial'), false)
      AND NOT coalesce(bool_or(held.is_counted) FILTER (WHERE held.source = 'subscription'), false)
    AS has_access,
  string_agg(DISTINCT held.tier, ', ') FILTER (WHERE held.has_access) AS tiers,
  CASE WHEN bool_or(held.has_access AND held.access_ends_at IS NULL) THEN NULL
    WHEN coalesce(bool_or(held.is_counted) FILTER (WHERE held.source = 'subscription'), false)
    THEN max(held.access_ends_at) FILTER (WHERE held.has_access AND held.source <> 'trial')
    ELSE max(held.access_ends_at) FILTER (WHERE held.has_access) END AS access_until,
  coalesce(bool_or(held.has_access AND held.is_endless), false) AS lifetime,
  count(*) FILTER (WHERE held.source = 'subscription') AS subscriptions,
  min(held.first_seen_at) AS first_seen_at,
  max(held.last_validated_at) AS last_validated_at,
  count(*) FILTER (WHERE held.source = 'grant' AND held.has_access) AS open_grants,
  max(held.trial_ends_at) AS trial_ends_at,
  EXISTS (
    SELECT FROM receiptd.free_access f
    WHERE f.bundle_id = held.bundle_id AND f.starts_at <= now() AND (f.ends_at IS NULL OR f.ends_at > now())
  ) AS free_access,
  string_agg(DISTINCT held.source, ', ') FILTER (WHERE held.has_access) AS sources,
  string_agg(DISTINCT held.plan, ', ') FILTER (WHERE held.has_access) AS plans,
  coalesce(bool_or(held.will_renew), false) AS will_renew,
  (SELECT jsonb_object_agg(money.currency, money.paid) FROM (
    SELECT paid.key AS currency, sum(paid.value::numeric) AS paid
    FROM unnest(array_agg(held.total_paid)) AS purchase (total_paid), jsonb_each_text(purchase.total_paid) AS paid
    GROUP BY paid.key) AS money) AS total_paid
FROM (
  SELECT 'subscription' AS source, s.bundle_id, s.user_id, s.device_id,
    coalesce(s.user_id::text, s.device_id) AS customer, s.tier, s.has_access, s.is_counted,
    s.access_ends_at, s.expiry_date IS NULL AS is_endless, s.created_at AS first_seen_at, s.last_validated_at, NULL::timestamptz AS trial_ends_at,
    s.product_id || coalesce(' at ' || s.price || ' ' || s.currency, '') AS plan, s.will_renew, s.total_paid
  FROM public.support_subscriptions s
  WHERE s.user_id IS NOT NULL OR s.device_id IS NOT NULL
  UNION ALL
  -- Purchases of another device that shares them. Whether a sandbox purchase counts depends on the device at hand.
  SELECT 'subscription', d.bundle_id, NULL::uuid, d.device_id, d.device_id, s.tier,
    own.is_counted AND s.status IN ('active', 'grace'), own.is_counted,
    CASE WHEN own.is_counted THEN coalesce(s.access_ends_at,
      greatest(s.expiry_date + app.grace_days * interval '24 hours', s.grace_expires_at)) END, s.expiry_date IS NULL,
    d.since, d.proved_at, NULL::timestamptz,
    s.product_id || coalesce(' at ' || s.price || ' ' || s.currency, ''), s.will_renew, s.total_paid
  FROM receiptd.purchase_devices d
  JOIN public.support_subscriptions s USING (original_transaction_id)
  JOIN receiptd.configured_apps app ON app.bundle_id = d.bundle_id
  CROSS JOIN LATERAL (
    SELECT s.tier IS NOT NULL AND (s.environment = 'Production' OR app.sandbox_for_everyone
      OR lower(d.device_id) = ANY(app.sandbox_testers)) AS is_counted
  ) AS own
  WHERE NOT d.is_barred AND app.shares_purchases AND s.device_id IS DISTINCT FROM d.device_id
  UNION ALL
  SELECT 'grant', g.bundle_id, g.user_id, g.device_id, coalesce(g.user_id::text, g.device_id), g.tier,
    g.is_counted AND g.revoked_at IS NULL AND g.starts_at <= now() AND (g.ends_at IS NULL OR g.ends_at > now()), true,
    g.next_change_at, g.ends_at IS NULL, g.created_at, NULL::timestamptz, NULL::timestamptz, 'grant of ' || g.tier, false, NULL::jsonb
  FROM receiptd.grants g
  UNION ALL
  SELECT 'trial', t.bundle_id, NULL::uuid, t.device_id, t.device_id, NULL::text,
    own.is_counted AND told.started_at <= now() AND grace.ends_at > now(), true, grace.ends_at, false, told.started_at,
    NULL::timestamptz, CASE WHEN own.is_counted THEN told.ends_at END, 'trial', false, NULL::jsonb
  FROM receiptd.trials t
  JOIN receiptd.trials told ON told.id = coalesce(t.continues, t.id)
  LEFT JOIN receiptd.configured_apps app ON app.bundle_id = t.bundle_id
  CROSS JOIN LATERAL (
    SELECT t.environment = 'Production' OR coalesce(app.sandbox_for_everyone
      OR lower(t.device_id) = ANY(app.sandbox_testers), false) AS is_counted
  ) AS own
  -- The app's own grace follows the trial. Both stand still during free access: each time of free access that begins
  -- before the end delays the end by its length. An open one counts as if it ended now.
  CROSS JOIN LATERAL (
    SELECT stretch.ends_at FROM (
      SELECT free.starts_at, told.ends_at + interval '1 second' * (
        86400 * coalesce(app.grace_days, 0) + coalesce(sum(free.seconds) OVER (
          ORDER BY free.starts_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS ends_at
      FROM (
        SELECT f.starts_at,
          extract(epoch FROM coalesce(f.ends_at, now()) - greatest(f.starts_at, told.started_at)) AS seconds
        FROM receiptd.free_access f
        WHERE f.bundle_id = t.bundle_id AND coalesce(f.ends_at, now()) > told.started_at
        UNION ALL VALUES ('infinity'::timestamptz, 0)
      ) AS free
    ) AS stretch
    WHERE stretch.starts_at >= stretch.ends_at ORDER BY stretch.starts_at LIMIT 1
  ) AS grace
) AS held
GROUP BY held.bundle_id, held.user_id, held.device_id, held.customer;
COMMENT ON COLUMN public.support_customers.access_until IS 'The latest end of access that the customer has now. NULL with access: it never ends (lifetime), or its end is unknown while free access is on.';

-- A view that is replaced loses its options: on Supabase it must read with the rights of its reader.
SELECT public.receiptd_set_rights('support_customers');
