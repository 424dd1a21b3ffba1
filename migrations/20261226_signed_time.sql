-- A notification stands in the timeline at the time at which Apple signed it.
--
-- It stood at the time of receipt. After an outage, and at the first start, when the history of half a year is read, an
-- event of August stood above the renewals of October.
--
-- The definition is long, and only one expression of it changes.
DO $$
DECLARE
  former CONSTANT text := pg_get_viewdef('public.support_timeline'::regclass);
  changed CONSTANT text := regexp_replace(former, '\mn\.received_at( AS at)?,', 'n.signed_at\1,');
BEGIN
  IF changed !~ '\mn\.signed_at( AS at)?,' THEN
    RAISE EXCEPTION 'support_timeline has another definition than receiptd gave it';
  END IF;
  EXECUTE 'CREATE OR REPLACE VIEW public.support_timeline AS ' || changed;
END
$$;
COMMENT ON COLUMN public.support_timeline.at IS 'When it happened; of a notification, when Apple signed it.';

-- A view that is replaced loses its option `security_invoker`.
-- migrate: new transaction
SELECT public.receiptd_set_rights('support_timeline');

-- migrate: new transaction
SELECT public.receiptd_set_common_rights();
