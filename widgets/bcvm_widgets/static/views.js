// The row of tabs by which one view of several is chosen.

class Views {
  // `panels`: [key, name, element]; `onChange` is called with the key of the one that is open.
  constructor(panels, onChange) {
    this.panels = panels;
    this.onChange = onChange;
    this.tabs = panels.map(([key, name]) => {
      const tab = make("button", { type: "button", role: "tab", onclick: () => this.open(key) }, name);
      tab.dataset.view = key;
      return tab;
    });
    this.element = make(
      "div",
      { class: "bcvm-views", role: "tablist", "aria-label": "Views", onkeydown: (event) => this.key(event) },
      ...this.tabs,
    );
    for (const [, name, element] of panels) {
      element.setAttribute("role", "tabpanel");
      element.setAttribute("aria-label", name);
    }
    this.show(panels[0][0]);
  }

  show(key) {
    this.current = key;
    this.panels.forEach(([each, , element], n) => {
      element.hidden = each !== key;
      this.tabs[n].setAttribute("aria-selected", String(each === key));
      this.tabs[n].tabIndex = each === key ? 0 : -1;
    });
  }

  open(key) {
    this.show(key);
    this.onChange(key);
  }

  key(event) {
    const tab = tabAt(event, this.tabs);
    if (!tab) return;
    this.open(tab.dataset.view);
    tab.focus();
  }
}
