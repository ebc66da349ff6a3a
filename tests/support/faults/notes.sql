create table if not exists public.notes (run text not null, text text not null);
