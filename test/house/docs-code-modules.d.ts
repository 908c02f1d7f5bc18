/** Files of a host's own that a page imports. */
declare module '*/acme.ts' {
  export const AcmeProvider: new () => import('durable-integrations').HasScheduledSync
}
