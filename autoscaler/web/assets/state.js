/** What is known; the views read it and never change it. */
export const state = {
  rows: new Map(),
  /** The address of the list as it was shown last. */
  list: "#/",
  cluster: [],
  at: 0,
  leads: true,
  leader: "",
  silent: 0,
  version: "",
  received: 0,
};
