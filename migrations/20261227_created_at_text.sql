-- The guards keep `created_at` whatever the session's DateStyle is.
--
-- They wrote it as text in the session's style, whose abbreviation of a time zone may be read as another zone: with `Postgres` and
-- Asia/Shanghai each write of a client moved the date by 14 hours. JSON has one form of dates (ISO 8601, with the offset).
DO $$
DECLARE
  relation text;
  guard text;
  changed text;
BEGIN
  FOREACH relation IN ARRAY ARRAY['profiles', 'user_preferences'] LOOP
    guard := pg_get_functiondef(format('receiptd.receiptd_guard_%s()', relation)::regprocedure);
    CONTINUE WHEN strpos(guard, 'to_jsonb(now())') > 0;
    changed := replace(replace(guard,
      $code$created := now()::text;$code$, $code$created := to_jsonb(now()) #>> '{}';$code$),
      $code$'SELECT ($1).created_at::text'$code$, $code$'SELECT to_jsonb(($1).created_at) #>> ''{}'''$code$);
    IF strpos(changed, 'to_jsonb(now())') = 0 OR strpos(changed, 'to_jsonb(($1).created_at)') = 0 THEN
      RAISE EXCEPTION 'the guard of % does not keep created_at as receiptd wrote it', relation;
    END IF;
    EXECUTE changed;
  END LOOP;
END
$$;
