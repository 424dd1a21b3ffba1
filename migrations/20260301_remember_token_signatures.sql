-- The App Store signs one transaction with an appAccountToken and without one. The latest token is kept where a later
-- signature lacks it; of two tokens the one that was signed last decides, so its date is kept too.
ALTER TABLE public.transactions ADD COLUMN IF NOT EXISTS app_account_token_signed_at timestamptz;
COMMENT ON COLUMN public.transactions.app_account_token IS 'The account that the app named: the latest appAccountToken that Apple signed for the transaction.';
COMMENT ON COLUMN public.transactions.app_account_token_signed_at IS 'When Apple signed app_account_token, where a later signature lacks a token; NULL: with the latest signature, at signed_at.';
