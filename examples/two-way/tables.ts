/** The host's own tables: what is a mirror of what. A real host has migrations of its own instead. */
export const SCHEMA = `
  create table if not exists mirrored_issues (
    id bigint primary key generated always as identity,
    -- Of both integrations: its type and its id.
    owner text not null,
    issue integer not null,
    ticket text not null,
    -- What both sides said when they last agreed: what differs from it was changed since.
    title text not null,
    is_open boolean not null,
    unique (owner, issue),
    unique (owner, ticket)
  );
  create table if not exists mirrored_comments (
    mirror_id bigint not null references mirrored_issues (id) on delete cascade,
    issue_comment text not null,
    ticket_comment text not null,
    unique (mirror_id, issue_comment),
    unique (mirror_id, ticket_comment)
  );`
