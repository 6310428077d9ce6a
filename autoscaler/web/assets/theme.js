// Applied before the first paint. Without a choice of the user the system's theme holds.
(() => {
  const KEY = "optimus-theme";
  const stored = () => {
    try {
      return localStorage.getItem(KEY) || "auto";
    } catch {
      return "auto";
    }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const choice = stored();
    const dark = choice === "dark" || (choice === "auto" && system.matches);
    const root = document.documentElement;
    root.dataset.theme = dark ? "dark" : "light";
    root.dataset.themeChoice = choice;
    dispatchEvent(new Event("themechange"));
  };
  system.addEventListener("change", apply);
  window.optimusTheme = {
    get choice() {
      return stored();
    },
    set choice(value) {
      try {
        localStorage.setItem(KEY, value);
      } catch {
        // A browser that stores nothing keeps the system's theme.
      }
      apply();
    },
  };
  apply();
})();
