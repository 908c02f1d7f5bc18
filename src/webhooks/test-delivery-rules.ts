/** What an operator may send to try a door. Rule: docs/behaviour/dashboard.md, "Test console". */

/** `tampered`: signed, then changed by a byte. */
export const SIGNINGS = ['signed', 'unsigned', 'tampered'] as const
export type Signing = (typeof SIGNINGS)[number]

/** Tells a delivery of the console apart: its value is the test's id. */
export const TEST_HEADER = 'x-integrations-test'
